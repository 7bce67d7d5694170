"""The GraphQL page for browsers, in development: GraphiQL if it is built, otherwise a plain page."""
