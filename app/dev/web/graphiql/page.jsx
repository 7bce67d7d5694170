// The full GraphQL page: GraphiQL with its explorer and our examples, and whose token each tab runs with.

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
import { config, roles } from "./config.js";
import { EXAMPLES, firstTabs, narrow } from "./examples.jsx";
import { storage } from "./keeping.js";
import { Streams, onTabChange } from "./streams.jsx";
import { Whose, headersFor } from "./tokens.jsx";

/* global WORKERS: the names of the built workers, by label */
globalThis.MonacoEnvironment = {
  getWorker: (_, label) => new Worker(new URL(WORKERS[label] ?? WORKERS.editor, import.meta.url)),
};

const EDITOR_OPTIONS = {
  fontSize: 13,
  lineHeight: 19,
  wordWrap: "on",
  // Otherwise an editor that cannot scroll further would keep the page from scrolling.
  scrollbar: { verticalScrollbarSize: 10, alwaysConsumeMouseWheel: false },
};

/** GraphiQL fills in its editors from the first tab's query alone, so the tab that is open is opened again. */
function OpenTab() {
  const { activeTabIndex, tabs, ...editors } = useGraphiQL(
    pick("activeTabIndex", "tabs", "queryEditor", "variableEditor", "headerEditor", "responseEditor"),
  );
  const { changeTab } = useGraphiQLActions();
  const isDone = useRef(false);
  useEffect(() => {
    if (isDone.current || !Object.values(editors).every(Boolean)) return;
    isDone.current = true;
    changeTab(activeTabIndex);
    for (const editor of Object.values(editors)) editor.updateOptions(EDITOR_OPTIONS);
  });
  useEffect(() => {
    document.querySelector(".graphiql-tab-active")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    document.getElementById("graphiql-session").scrollTop = 0; // where it is narrow
  }, [activeTabIndex, tabs.length]);
  return null;
}

// ---- The pane on the left: which one, or none, is kept; where it is narrow it hides the rest, so none at first.

const PANE = "care-gateway:pane";
const paneAtFirst = () => (narrow.matches ? null : (sessionStorage.getItem(PANE) ?? EXAMPLES.title));
const keepPane = (plugin) => narrow.matches || sessionStorage.setItem(PANE, plugin?.title ?? "");

function Panes() {
  const { isFetching } = useGraphiQL(pick("isFetching"));
  const { setVisiblePlugin } = useGraphiQLActions();
  useEffect(() => {
    const onWidth = () => narrow.matches && setVisiblePlugin(null);
    narrow.addEventListener("change", onWidth);
    return () => narrow.removeEventListener("change", onWidth);
  }, [setVisiblePlugin]);
  useEffect(() => {
    if (narrow.matches && isFetching) document.querySelector(".graphiql-response").scrollIntoView({ block: "nearest" });
  }, [isFetching]);
  return null;
}

const fetcher = asker(config.endpoint);
const plugins = [EXAMPLES, explorerPlugin(), HISTORY_PLUGIN];

createRoot(document.getElementById("page")).render(
  <GraphiQL
    fetcher={fetcher}
    storage={storage}
    plugins={plugins}
    visiblePlugin={paneAtFirst()}
    onTogglePluginVisibility={keepPane}
    defaultTabs={firstTabs}
    onTabChange={onTabChange}
    defaultHeaders={headersFor(roles[0])}
    defaultEditorToolsVisibility="variables"
    shouldPersistHeaders // as a word for whose they are: keeping.js
    showPersistHeadersSettings={false}
    inputValueDeprecation
    schemaDescription
  >
    <GraphiQL.Toolbar>
      {({ prettify, merge, copy }) => (
        <>
          <Whose />
          {prettify}
          {merge}
          {copy}
        </>
      )}
    </GraphiQL.Toolbar>
    <GraphiQL.Logo>
      Care Gateway
      <OpenTab />
      <Streams />
      <Panes />
    </GraphiQL.Logo>
  </GraphiQL>,
);
