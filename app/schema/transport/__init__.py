"""GraphQL over HTTP, event streams and websockets."""
