// Copies the open tab as a link or as a curl command, both without the token, and opens such a link.

import { ToolbarButton, pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useEffect, useState } from "react";
import { graphiqlLink, stateOf } from "../links.mjs";
import { config, roles } from "./config.js";
import { show } from "./examples.jsx";
import { EVENTS, isSubscription } from "./fetcher.js";
import { headersFor, kindOfToken, parsed } from "./tokens.jsx";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** For any POSIX shell. The variable has the name of the role, as in the output of `make run`. */
function curl({ query, variables, headers }, document, operationName) {
  const kind = kindOfToken(headers);
  const body = { query, variables: parsed(variables), operationName: operationName ?? undefined };
  const others = Object.entries(parsed(headers) ?? {}).filter(([name]) => name.toLowerCase() !== "authorization");
  return [
    `curl -sS${isSubscription(document, operationName) ? "N" : ""} ${quoted(`${location.origin}${config.endpoint}`)}`,
    `-H "Authorization: bearer $${roles.includes(kind) ? kind.toUpperCase() : "TOKEN"}"`,
    ...(isSubscription(document, operationName) ? [`-H ${quoted(`Accept: ${EVENTS}`)}`] : []),
    ...others.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    "-H 'Content-Type: application/json'",
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(" ");
}

function link({ query, variables, headers }) {
  return location.origin + graphiqlLink({ query, variables, role: kindOfToken(headers) });
}

export function Sharing() {
  const state = useGraphiQL(
    pick("queryEditor", "variableEditor", "headerEditor", "documentAST", "operationName"),
  );
  const [copied, setCopied] = useState("");
  const copy = async (name, text) => {
    const [query, variables, headers] = ["query", "variable", "header"].map((each) => state[`${each}Editor`].getValue());
    await navigator.clipboard.writeText(text({ query, variables, headers }, state.documentAST, state.operationName));
    setCopied(name);
    setTimeout(() => setCopied(""), 1500);
  };
  const button = (name, label, text, icon) => (
    <ToolbarButton label={copied === name ? "Copied" : label} onClick={() => copy(name, text)} data-copied={copied === name || undefined}>
      <svg className="graphiql-toolbar-icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.7" aria-hidden="true">
        <path strokeLinecap="round" strokeLinejoin="round" d={copied === name ? "M5 13l4 4L19 7" : icon} />
      </svg>
    </ToolbarButton>
  );
  return (
    <>
      {button("link", "Copy link (without the token)", link, "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1m2 4a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1")}
      {button("curl", "Copy as curl (without the token)", curl, "M4 6l6 6-6 6m9 1h7")}
    </>
  );
}

/** Opens the operation of a link in a tab, and never runs it. */
export function OpenLink() {
  const editors = useGraphiQL(pick("tabs", "queryEditor", "variableEditor", "headerEditor", "responseEditor"));
  const actions = useGraphiQLActions();
  const [link, setLink] = useState(() => stateOf(location.hash));
  const isReady = Boolean(editors.queryEditor && editors.variableEditor && editors.headerEditor && editors.responseEditor);
  useEffect(() => {
    const onLink = () => setLink(stateOf(location.hash));
    addEventListener("hashchange", onLink);
    return () => removeEventListener("hashchange", onLink);
  }, []);
  useEffect(() => {
    if (!isReady || !link) return;
    history.replaceState(history.state, "", location.pathname); // a reload keeps the tab instead of opening it again
    setLink(null);
    const isSame = (tab) => (tab.variables ?? "") === link.variables;
    show({ query: link.query, variables: link.variables, headers: headersFor(link.role) }, editors, actions, isSame);
  }, [isReady, link]);
  return null;
}
