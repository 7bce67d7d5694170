"""For development only: demo tokens, the lines that make run prints, the GraphQL page."""
