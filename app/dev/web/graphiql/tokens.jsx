// The kind of token of a tab: read from its headers, shown and chosen beside Run.

import { pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { config, focusQuery, roles } from "./config.js";
import { changed, useChanges } from "./facts.jsx";

const OWN = "own token";
const NO_TOKEN = "no token";
const TEMPLATE = '{\n  "Authorization": "bearer "\n}';

/** A role with its demo token, another token even if it is still missing, or none. */
export function kindOfToken(headers) {
  const role = roles.find((each) => config.tokens[each] && headers?.includes(config.tokens[each]));
  return role ?? (/"authorization"\s*:/i.test(headers ?? "") ? OWN : NO_TOKEN);
}

const hasToken = (headers) => /"authorization"\s*:\s*"(bearer\s+)?(?!bearer\b)[^\s"…]/i.test(headers ?? "");

const rejected = new Set(); // headers whose token the service rejected

export function noteToken({ errors }, headers) {
  const isRejected = errors?.some(({ extensions }) => extensions?.code === "UNAUTHENTICATED");
  rejected[isRejected ? "add" : "delete"](JSON.stringify(headers));
  changed();
}

function problemOf(headers, kind) {
  if (/^\s*[^\s{/]/.test(headers ?? "")) return `Headers must be JSON: { "Authorization": "bearer <token>" }`;
  if (!hasToken(headers)) return "Not signed in: Headers contains no token.";
  if (!rejected.has(JSON.stringify(parsed(headers)))) return null;
  const remedy = kind === OWN ? "Paste another one into Headers." : "Reload the page for a new one.";
  return `The service rejected the ${kind === OWN ? "token in Headers" : `token of the ${kind}`}: it expired or is not valid. ${remedy}`;
}

/** The browser stores no token, so another one than a demo token has to be pasted again. */
export function headersFor(kind) {
  const token = Object.hasOwn(config.tokens, kind) && config.tokens[kind]; // a link can name any kind
  return token ? JSON.stringify({ Authorization: `bearer ${token}` }, null, 2) : kind === OWN ? TEMPLATE : "";
}

/** The value of a text in JSON with comments, as far as it is JSON. */
export function parsed(text) {
  try {
    return JSON.parse(text || "null") ?? undefined;
  } catch {
    return undefined;
  }
}

let ownHeaders = TEMPLATE; // the last ones with another token than that of a role; lost on a reload

export function TokenChoice() {
  const { tabs, activeTabIndex, queryEditor, headerEditor } = useGraphiQL(
    pick("tabs", "activeTabIndex", "queryEditor", "headerEditor"),
  );
  const { updateActiveTabValues } = useGraphiQLActions();
  const { headers } = tabs[activeTabIndex];
  const kind = kindOfToken(headers);
  useChanges();
  const write = (chosen) => {
    if (kind === OWN) ownHeaders = headers;
    headerEditor.setValue(chosen);
    updateActiveTabValues({ headers: chosen });
  };
  const choose = (role) => {
    write(headersFor(role));
    focusQuery(queryEditor);
  };
  const writeOwn = () => {
    if (kind !== OWN) write(ownHeaders);
    document.querySelector(".graphiql-editor-tools [data-name=headers]").click();
    headerEditor.setPosition({ lineNumber: 2, column: TEMPLATE.split("\n")[1].length });
    setTimeout(() => headerEditor.focus()); // after it is shown
  };
  return (
    <div className="tokens" role="group" aria-label="Token of this tab">
      <span>as</span>
      {roles.filter((each) => config.tokens[each]).map((each) => (
        <button key={each} type="button" aria-pressed={kind === each} onClick={() => choose(each)}>
          {each}
        </button>
      ))}
      <button type="button" aria-pressed={kind === OWN} onClick={writeOwn}>{OWN}</button>
      <span role="status">{problemOf(headers, kind)}</span>
    </div>
  );
}
