// Links to an operation in GraphiQL. Its state is in the fragment, which browsers do not send, and has no token.

const NAMES = ["query", "variables", "role"];

export function graphiqlLink(state) {
  const parts = NAMES.filter((name) => state[name]).map((name) => `${name}=${encodeURIComponent(state[name])}`);
  return `/graphql#${parts.join("&")}`;
}

/** The state in a fragment, or null. */
export function stateOf(fragment) {
  const parts = new URLSearchParams(fragment.replace(/^#/, "").replaceAll("+", "%2B"));
  return parts.has("query") ? Object.fromEntries(NAMES.map((name) => [name, parts.get(name) ?? ""])) : null;
}
