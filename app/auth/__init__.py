"""From a bearer token to a viewer."""
