// Keeps one subscription per tab. GraphiQL itself keeps one, for the open tab.

import { pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useLayoutEffect } from "react";

const streams = new Map(); // by the id of the tab
let openTab;
let resumed; // while run() resumes a stream instead of starting one

/** What the fetcher returns for a tab that subscribes already, or undefined. */
export const resumedStream = () => resumed && observable(resumed);

/** Starts a subscription for the open tab. `start` takes an observer and returns how to stop. */
export function startStream(start) {
  const tab = openTab;
  const stream = { tab };
  const end = (finish) => {
    stream.end = finish;
    show(stream);
  };
  const { unsubscribe } = start({
    next: (result) => {
      stream.last = result;
      stream.observer?.next(result);
    },
    error: (error) => end((observer) => observer.error(error)),
    complete: () => end((observer) => observer.complete()),
  });
  stream.stop = () => {
    streams.delete(tab);
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
      if (stream.last) stream.observer?.next(stream.last);
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
  }, [tabs]);
  return null;
}
