"""Development only: demo tokens, the output of `make run`, the GraphQL page."""
