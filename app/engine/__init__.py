"""How a GraphQL operation runs fast: prepared once, shaped by generated functions, judged by graphql-core."""
