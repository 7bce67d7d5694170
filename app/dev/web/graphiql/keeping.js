// What is kept, until the browser's tab is closed: queries, variables, and of the headers only whose token was in them.

import { headersFor, whose } from "./tokens.jsx";

// These the tabs have as well, and the editors fill in the first tab's alone.
const TWICE = ["graphiql:query", "graphiql:variables", "graphiql:headers"];
// The first sizes: the examples beside the rest, and the query above the variables.
const SIZES = { "graphiql:docExplorerFlex": "0.27", "graphiql:secondaryEditorFlex": "4" };

export const storage = {
  getItem: (key) => mapped(sessionStorage.getItem(key), withHeaders) ?? SIZES[key] ?? null,
  setItem: (key, text) => TWICE.includes(key) || sessionStorage.setItem(key, mapped(text, withoutHeaders)),
  removeItem: (key) => sessionStorage.removeItem(key),
  clear: () => sessionStorage.clear(),
  get length() {
    return sessionStorage.length;
  },
};

const isRequest = (value) => value !== null && typeof value === "object" && "query" in value; // of a tab, or of the history
const withHeaders = (_, value) => (isRequest(value) ? { ...value, headers: headersFor(value.headers) } : value);
const withoutHeaders = (name, value) => (name === "headers" ? whose(value) : value);

function mapped(text, change) {
  try {
    return text && JSON.stringify(JSON.parse(text, change));
  } catch {
    return text; // a plain word, such as the theme
  }
}
