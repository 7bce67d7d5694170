"""Sessions: the viewer's own, and opening, changing and closing them."""
