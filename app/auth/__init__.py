"""Authentication of requests: bearer tokens, the keys that verify them, and viewers."""
