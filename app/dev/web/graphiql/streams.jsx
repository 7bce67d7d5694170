// Keeps one subscription per tab. GraphiQL itself keeps one, for the open tab.

import { pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useLayoutEffect } from "react";
import { beginLog, forgetLogs, shownResult } from "./log.jsx";

const streams = new Map(); // by the id of the tab
let openTab;
let resumed; // while run() resumes a stream instead of starting one

export const currentTab = () => openTab;

/** What the fetcher returns for a tab that subscribes already, or undefined. */
export const resumedStream = () => resumed && observable(resumed);

/** Starts a subscription for the open tab. `start` takes an observer and returns how to stop. */
export function startStream(start) {
  const tab = openTab;
  const stream = { tab, log: beginLog(tab, (result) => stream.observer?.next(result)) };
  const end = (finish) => {
    stream.end = finish;
    stream.log.end();
    show(stream);
  };
  const { unsubscribe } = start({
    tab,
    open: stream.log.open,
    next: stream.log.add,
    error: (error) => end((observer) => observer.error(error)),
    complete: () => end((observer) => observer.complete()),
  });
  stream.stop = () => {
    streams.delete(tab);
    stream.log.end();
    unsubscribe();
  };
  streams.get(tab)?.stop();
  streams.set(tab, stream);
  return observable(stream);
}

const observable = (stream) => ({
  subscribe(observer) {
    stream.observer = observer;
    setTimeout(() => {
      if (stream.tab !== openTab) return leave(stream);
      const shown = shownResult(stream.tab);
      if (shown) stream.observer?.next(shown);
      show(stream);
    });
    // GraphiQL calls this on Stop, and before it opens another tab; then onTabChange has changed openTab.
    return { unsubscribe: () => {
      stream.observer = null;
      queueMicrotask(() => stream.tab === openTab && !stream.observer && stream.stop());
    } };
  },
});

/** Passes on the end, once the tab is open. */
function show(stream) {
  if (!stream.end || !stream.observer) return;
  streams.delete(stream.tab);
  stream.end(stream.observer);
}

/** The stream continues; GraphiQL sees it complete, so that another tab can run. */
function leave(stream) {
  stream.observer?.complete();
  stream.observer = null;
}

export const onTabChange = ({ activeTabIndex, tabs }) => {
  openTab = tabs[activeTabIndex].id;
};

export function Streams() {
  const { activeTabIndex, tabs } = useGraphiQL(pick("activeTabIndex", "tabs"));
  const { run } = useGraphiQLActions();
  const id = tabs[activeTabIndex].id;
  useLayoutEffect(() => {
    openTab = id;
    resumed = streams.get(id);
    if (resumed) run();
    resumed = undefined;
    return () => streams.has(id) && leave(streams.get(id));
  }, [id, run]);
  useLayoutEffect(() => {
    const ids = tabs.map((tab) => tab.id);
    for (const stream of streams.values()) if (!ids.includes(stream.tab)) stream.stop();
    forgetLogs(ids);
  }, [tabs]);
  return null;
}
