// The schema by the rules of graphql-eslint. `npm run lint` runs it.

import { fileURLToPath } from "node:url";
import graphql from "@graphql-eslint/eslint-plugin";

const rules = {
  ...graphql.configs["flat/schema-recommended"].rules,
  ...graphql.configs["flat/schema-relay"].rules,
  // Forward only: no `last` and `before`. A page in the other direction is another `orderBy`, a numbered page `offset`.
  "@graphql-eslint/relay-arguments": ["error", { includeBoth: false }],
  // Lists of a few items without pages need no edges, nor do `nodes`. An audit event cannot be looked up by its id.
  "@graphql-eslint/relay-edge-types": ["error", { listTypeCanWrapOnlyEdgeType: false, shouldImplementNode: false }],
  // Parts of another object, or of one response: caches keep them with it.
  "@graphql-eslint/strict-id-in-types": [
    "error",
    {
      exceptions: {
        types: ["Answer", "CompletionPoint", "Lateness", "PageInfo", "Progress", "ScorePoint", "UserError", "Viewer"],
        suffixes: ["Connection", "Edge", "Payload"],
      },
    },
  ],
  // `Answer.answer` has the name of the documented member of the legacy paths.
  "@graphql-eslint/no-typename-prefix": "off",
};

export default [
  {
    files: ["schema.graphql"],
    plugins: { "@graphql-eslint": graphql },
    languageOptions: {
      parser: graphql.parser,
      parserOptions: { graphQLConfig: { schema: fileURLToPath(new URL("../schema.graphql", import.meta.url)) } },
    },
    rules,
  },
];
