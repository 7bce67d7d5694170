"""`care-gateway doctor`: read-only checks of an installation."""
