"""Development only: demo tokens, the output of `make run`, GraphiQL, and the built pages."""
