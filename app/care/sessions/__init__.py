"""Sessions: reading, changing and closing them."""
