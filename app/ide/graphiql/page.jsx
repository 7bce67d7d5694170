// The full GraphQL page: GraphiQL with its explorer, our examples as tabs, and tokens that are stored nowhere.

import "graphiql/style.css";
import "@graphiql/plugin-explorer/style.css";
import "./page.css";
import { explorerPlugin } from "@graphiql/plugin-explorer";
import { HISTORY_PLUGIN } from "@graphiql/plugin-history";
import { pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { GraphiQL } from "graphiql";
import { useEffect, useRef } from "react";
import { createRoot } from "react-dom/client";
import { asker } from "./asking.js";

/* global WORKERS: the names of the built workers, by label */
globalThis.MonacoEnvironment = {
  getWorker: (_, label) => new Worker(new URL(WORKERS[label] ?? WORKERS.editor, import.meta.url)),
};

const config = JSON.parse(document.getElementById("config").textContent);

// ---- Examples. The first line of a query says whose token it runs with.

const DOES = { query: "asks", mutation: "changes", subscription: "listens" };
const roleIn = (query) => /^# As a (caregiver|client)\b/.exec(query ?? "")?.[1] ?? "caregiver";

function headersFor(role) {
  const token = config.tokens[role];
  return token ? JSON.stringify({ Authorization: `bearer ${token}` }, null, 2) : "";
}

const examples = config.examples.map(({ role, title, query, variables, replaces, hint }) => {
  const lines = [`# As a ${role}: ${title}`, replaces && `# In place of ${replaces}`, hint && `# ${hint}`];
  const text = [...lines.filter(Boolean), "", query].join("\n");
  return { role, title, replaces, query: text, variables, headers: headersFor(role), kind: /^\w+/.exec(query)[0] };
});

function Examples() {
  const { tabs, queryEditor, variableEditor, headerEditor } = useGraphiQL(
    pick("tabs", "queryEditor", "variableEditor", "headerEditor"),
  );
  const { addTab, changeTab, updateActiveTabValues } = useGraphiQLActions();
  const show = ({ query, variables, headers }) => {
    const open = tabs.findIndex((tab) => tab.query === query);
    if (open >= 0) return changeTab(open);
    addTab();
    queryEditor.setValue(query);
    variableEditor.setValue(variables);
    headerEditor.setValue(headers);
    updateActiveTabValues({ query, variables, headers });
  };
  return (
    <section className="examples">
      <h2>Examples</h2>
      {Object.keys(config.tokens).length === 0 && (
        <p>They need a token, in Headers: <code>{'{"Authorization": "bearer …"}'}</code></p>
      )}
      {["caregiver", "client"].map((role) => (
        <div key={role}>
          <h3>As a {role}</h3>
          {examples.filter((example) => example.role === role).map((example) => (
            <button key={example.title} type="button" onClick={() => show(example)}>
              {example.title} <i>{DOES[example.kind]}</i>
              {example.replaces && <small>{breakable(example.replaces)}</small>}
            </button>
          ))}
        </div>
      ))}
    </section>
  );
}

const breakable = (path) => path.split(/(?<=[/?])/).flatMap((part, index) => [part, <wbr key={index} />]);

const ExamplesIcon = () => (
  <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.5" height="1em">
    <path strokeLinecap="round" strokeLinejoin="round" d="M4 5h16M4 10h9M4 15h6M4 20h6m5-7v8l6-4z" />
  </svg>
);

// ---- What is kept: queries and variables, until the browser's tab is closed. Headers never are.

const storage = {
  getItem: (key) => mapped(sessionStorage.getItem(key), withHeaders),
  setItem(key, text) {
    if (["graphiql:query", "graphiql:variables", "graphiql:headers"].includes(key)) return; // the tabs have them
    sessionStorage.setItem(key, mapped(text, withoutHeaders));
  },
  removeItem: (key) => sessionStorage.removeItem(key),
  clear: () => sessionStorage.clear(),
  get length() {
    return sessionStorage.length;
  },
};

const isRequest = (value) => value !== null && typeof value === "object" && "query" in value; // of a tab, or of the history
const withHeaders = (_, value) => (isRequest(value) ? { ...value, headers: headersFor(roleIn(value.query)) } : value);
const withoutHeaders = (name, value) => (name === "headers" ? null : value);

function mapped(text, change) {
  try {
    return text && JSON.stringify(JSON.parse(text, change));
  } catch {
    return text; // a plain word, such as the theme
  }
}

/** GraphiQL fills in its editors from the first tab's query alone, so the tab that is open is opened again. */
function OpenTab() {
  const { activeTabIndex, ...editors } = useGraphiQL(
    pick("activeTabIndex", "queryEditor", "variableEditor", "headerEditor"),
  );
  const { changeTab } = useGraphiQLActions();
  const isDone = useRef(false);
  useEffect(() => {
    if (isDone.current || !Object.values(editors).every(Boolean)) return;
    isDone.current = true;
    changeTab(activeTabIndex);
  });
  return null;
}

const fetcher = asker(config.endpoint);
const plugins = [{ title: "Examples", icon: ExamplesIcon, content: Examples }, explorerPlugin(), HISTORY_PLUGIN];

createRoot(document.getElementById("graphiql")).render(
  <GraphiQL
    fetcher={fetcher}
    storage={storage}
    plugins={plugins}
    visiblePlugin={plugins[0]}
    defaultTabs={examples.filter(({ replaces, kind }) => replaces || kind === "subscription")}
    defaultHeaders={headersFor("caregiver")}
    defaultEditorToolsVisibility="variables"
    shouldPersistHeaders={false}
    showPersistHeadersSettings={false}
    inputValueDeprecation
    schemaDescription
  >
    <GraphiQL.Logo>
      Care gateway
      <OpenTab />
    </GraphiQL.Logo>
  </GraphiQL>,
);
