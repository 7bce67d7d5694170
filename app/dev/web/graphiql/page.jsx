// GraphiQL with the explorer plugin, our examples, and a choice of token for each tab.

import "graphiql/style.css";
import "@graphiql/plugin-explorer/style.css";
import "./page.css";
import "./theme.css";
import { explorerPlugin } from "@graphiql/plugin-explorer";
import { HISTORY_PLUGIN } from "@graphiql/plugin-history";
import { KEY_MAP, formatShortcutForOS, pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { GraphiQL } from "graphiql";
import { useEffect, useRef } from "react";
import { createPortal } from "react-dom";
import { createRoot } from "react-dom/client";
import { config, isTouched, roles } from "./config.js";
import { EXAMPLES, firstTabs, narrow } from "./examples.jsx";
import { Facts } from "./facts.jsx";
import { fetcherOf } from "./fetcher.js";
import { Log } from "./log.jsx";
import { OpenLink, Sharing } from "./sharing.jsx";
import { storage } from "./storage.js";
import { Streams, onTabChange } from "./streams.jsx";
import { TokenChoice, headersFor } from "./tokens.jsx";

/* global WORKERS: the names of the built workers, by label */
globalThis.MonacoEnvironment = {
  getWorker: (_, label) => new Worker(new URL(WORKERS[label] ?? WORKERS.editor, import.meta.url)),
};

const EDITOR_OPTIONS = {
  fontFamily: "var(--mono)",
  fontSize: 12,
  lineHeight: 19,
  wordWrap: "on",
  glyphMargin: false,
  lineNumbersMinChars: 3,
  lineDecorationsWidth: 4,
  // Otherwise an editor that cannot scroll further would keep the page from scrolling.
  scrollbar: { verticalScrollbarSize: 10, alwaysConsumeMouseWheel: false },
};

/** GraphiQL fills its editors from the first tab, so this opens the active tab again. */
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
    document.getElementById("graphiql-session").scrollTop = 0; // in narrow windows
  }, [activeTabIndex, tabs.length]);
  return null;
}

// ---- The pane on the left: the browser stores which is open. In narrow windows none is at first: it hides the rest.

const PANE = "care-gateway:pane";
const paneAtFirst = () => (narrow.matches ? null : (sessionStorage.getItem(PANE) ?? EXAMPLES.title));
const keepPane = (plugin) => narrow.matches || sessionStorage.setItem(PANE, plugin?.title ?? "");

function Panes() {
  const { isFetching, visiblePlugin, queryEditor } = useGraphiQL(pick("isFetching", "visiblePlugin", "queryEditor"));
  const { setVisiblePlugin } = useGraphiQLActions();
  useEffect(() => {
    const onWidth = () => narrow.matches && setVisiblePlugin(null);
    narrow.addEventListener("change", onWidth);
    return () => narrow.removeEventListener("change", onWidth);
  }, [setVisiblePlugin]);
  useEffect(() => {
    if (narrow.matches && isFetching) document.querySelector(".graphiql-response").scrollIntoView({ block: "nearest" });
    if (isFetching) queryEditor?.trigger("run", "hideSuggestWidget"); // it would cover the response
  }, [isFetching]);
  useEffect(() => {
    document.querySelector(".graphiql-plugin").scrollTop = 0;
  }, [visiblePlugin]);
  return null;
}

/** A new tab begins with the token of the tab before it, and with the focus in its query. */
function NewTab() {
  const { tabs, activeTabIndex, queryEditor, headerEditor } = useGraphiQL(
    pick("tabs", "activeTabIndex", "queryEditor", "headerEditor"),
  );
  const { updateActiveTabValues } = useGraphiQLActions();
  const known = useRef(null);
  const { id, query, headers } = tabs[activeTabIndex];
  useEffect(() => {
    const isNew = known.current && !known.current.ids.includes(id);
    if (isNew && !query) {
      headerEditor.setValue(known.current.headers);
      updateActiveTabValues({ headers: known.current.headers });
      queryEditor.focus();
    }
    known.current = { ids: tabs.map((tab) => tab.id), headers: (isNew && !query ? known.current.headers : headers) ?? "" };
  });
  return null;
}

/** In the pane of the response while the tab has none, and no subscription. */
function Hint() {
  const { tabs, activeTabIndex, isFetching, subscription, responseEditor } = useGraphiQL(
    pick("tabs", "activeTabIndex", "isFetching", "subscription", "responseEditor"),
  );
  const pane = responseEditor?.getContainerDomNode().closest(".graphiql-response");
  if (!pane || isFetching || subscription || tabs[activeTabIndex].response) return null;
  return createPortal(<p className="hint">Run the operation with <kbd>{isTouched ? "▶" : formatShortcutForOS(KEY_MAP.runQuery.key)}</kbd></p>, pane);
}

const fetcher = fetcherOf(config.endpoint);
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
    defaultEditorToolsVisibility={narrow.matches ? false : "variables"}
    shouldPersistHeaders // without tokens: storage.js
    showPersistHeadersSettings={false}
    inputValueDeprecation
    schemaDescription
  >
    <GraphiQL.Toolbar>
      {({ prettify, merge, copy }) => (
        <>
          <TokenChoice />
          {prettify}
          {merge}
          {copy}
          <Sharing />
        </>
      )}
    </GraphiQL.Toolbar>
    <GraphiQL.Logo>
      Care Gateway
      <OpenTab />
      <Streams />
      <Panes />
      <NewTab />
      <OpenLink />
      <Hint />
    </GraphiQL.Logo>
    <GraphiQL.Footer>
      <Log />
      <Facts />
    </GraphiQL.Footer>
  </GraphiQL>,
);
