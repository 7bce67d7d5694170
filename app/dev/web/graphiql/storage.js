// What the browser stores until its tab is closed: queries and variables, and instead of a token only its kind.

import { headersFor, kindOfToken } from "./tokens.jsx";

// The tabs contain these too, and the editors would show the first tab's.
const DUPLICATES = ["graphiql:query", "graphiql:variables", "graphiql:headers"];
// The first sizes: the examples beside the rest, the query beside the response, and above the variables.
const SIZES = { "graphiql:docExplorerFlex": "0.22", "graphiql:editorFlex": "1.08", "graphiql:secondaryEditorFlex": "4" };

export const storage = {
  getItem: (key) => mapped(sessionStorage.getItem(key), withHeaders) ?? SIZES[key] ?? null,
  setItem: (key, text) => DUPLICATES.includes(key) || sessionStorage.setItem(key, mapped(text, withoutHeaders)),
  removeItem: (key) => sessionStorage.removeItem(key),
  clear: () => sessionStorage.clear(),
  get length() {
    return sessionStorage.length;
  },
};

const isRequest = (value) => value !== null && typeof value === "object" && "query" in value; // a tab, or an entry of the history
const withHeaders = (_, value) => (isRequest(value) ? { ...value, headers: headersFor(value.headers) } : value);
const withoutHeaders = (name, value) => (name === "headers" ? kindOfToken(value) : value);

function mapped(text, change) {
  try {
    return text && JSON.stringify(JSON.parse(text, change));
  } catch {
    return text; // not JSON, such as the theme
  }
}
