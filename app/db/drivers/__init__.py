"""The two databases behind one interface."""
