import type { CodegenConfig } from "@graphql-codegen/cli";
import { addTypenameSelectionDocumentTransform } from "@graphql-codegen/client-preset";

const config: CodegenConfig = {
  schema: "../schema.graphql",
  documents: ["typescript/*.ts", "react/*.ts"],
  importExtension: ".ts",
  generates: {
    "made/typescript/": {
      preset: "client",
      presetConfig: { persistedDocuments: { hashAlgorithm: "sha256" }, fragmentMasking: false },
      documentTransforms: [addTypenameSelectionDocumentTransform], // caches need __typename
      config: {
        scalars: { ID: "string", DateTime: "string", Date: "string" },
        strictScalars: true, // an unmapped scalar is an error
        enumsAsTypes: true,
        useTypeImports: true,
      },
    },
  },
};

export default config;
