"""The legacy contract: four documented paths, each a constant GraphQL document and a response body."""
