// Status, time, size, cost and Server-Timing of the last response of each tab, below the response.

import { pick, useGraphiQL } from "@graphiql/react";
import { useSyncExternalStore } from "react";

const listeners = new Set();
const listen = (listener) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};
let version = 0;

/** Renders what uses `useChanges` again. */
export function changed() {
  version += 1;
  for (const listener of listeners) listener();
}
export const useChanges = () => useSyncExternalStore(listen, () => version);

const facts = new Map(); // by the id of the tab

/** `since` is a time of performance.now(). Without `text` the response is a stream. */
export function noteResponse(tab, response, since, text, cost) {
  facts.set(tab, {
    status: `${response.status} ${response.statusText}`.trim(),
    isBad: !response.ok,
    spent: performance.now() - since,
    size: text === undefined ? null : new Blob([text]).size,
    cost,
    parts: (response.headers.get("Server-Timing") ?? "").split(", ").map((part) => /^(\w+);dur=(.*)/.exec(part)?.slice(1)).filter(Boolean),
  });
  changed();
}

export function forgetResponse(tab) {
  facts.delete(tab);
  changed();
}

const milliseconds = (number) => `${number < 10 ? number.toFixed(1) : Math.round(number)} ms`;
const bytes = (number) => (number < 1000 ? `${number} B` : `${(number / 1000).toFixed(1)} kB`);

export function Facts() {
  const { tabs, activeTabIndex } = useGraphiQL(pick("tabs", "activeTabIndex"));
  useChanges();
  const found = facts.get(tabs[activeTabIndex].id);
  if (!found) return null;
  const { status, isBad, spent, size, cost, parts } = found;
  const total = parts.find(([name]) => name === "total");
  return (
    <dl className="facts" aria-label="Response">
      <div><dt>Status</dt><dd data-bad={isBad || undefined}>{status}</dd></div>
      <div><dt>Time</dt><dd>{milliseconds(spent)}</dd></div>
      {size !== null && <div><dt>Size</dt><dd>{bytes(size)}</dd></div>}
      {cost && <div><dt>Cost</dt><dd>{cost.cost} of {cost.limit}</dd></div>}
      {total && (
        <div className="server" title="Server-Timing of the response">
          <dt>Server</dt>
          <dd>{milliseconds(+total[1])}{parts.filter((part) => part !== total).map(([name, spent]) => `, ${name} ${milliseconds(+spent)}`)}</dd>
        </div>
      )}
    </dl>
  );
}
