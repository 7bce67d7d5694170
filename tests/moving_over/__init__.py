"""Moving over: recorded, taken over, compared."""
