export default {
  documents: ["tests/apollo-operations.js"],
  output: "made/apollo-manifest.json",
};
