// The events of a subscription: a list below the response, which shows the chosen one.

import { pick, useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useEffect, useRef } from "react";
import { changed, useChanges } from "./facts.jsx";

const MOST = 500; // events that a tab keeps

const logs = new Map(); // by the id of the tab, also after the end of the subscription

/** `show` passes a result on to GraphiQL. */
export function beginLog(tab, show) {
  const log = { events: [], count: 0, pausedAt: null, chosen: null, state: "connecting", since: null, show };
  logs.set(tab, log);
  changed();
  return {
    open: () => update(log, { state: "open", since: new Date() }),
    end: () => log.state === "ended" || update(log, { state: "ended" }),
    add: (result, isEvent) => {
      const event = { number: log.count + 1, isEvent, at: new Date(), result };
      const isShown = log.pausedAt === null && log.chosen === null;
      update(log, { count: log.count + isEvent, events: [...log.events, event].slice(-MOST) });
      if (isShown) show(result);
    },
  };
}

function update(log, values) {
  Object.assign(log, values);
  changed();
}

const listed = ({ events, pausedAt }) => (pausedAt === null ? events : events.filter(({ number }) => number <= pausedAt));

/** The chosen event, or the last one. */
export function shownResult(tab) {
  const log = logs.get(tab);
  return log && (log.events.find(({ number }) => number === log.chosen) ?? listed(log).at(-1))?.result;
}

export function forgetLog(tab) {
  logs.delete(tab);
  changed();
}

export function forgetLogs(tabs) {
  for (const tab of logs.keys()) if (!tabs.includes(tab)) logs.delete(tab);
}

const clock = (moment) => `${moment.toTimeString().slice(0, 8)}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
const summary = ({ data, errors }) => JSON.stringify(errors ? errors.map(({ message }) => message) : Object.values(data ?? {})[0]);

export function Log() {
  const { tabs, activeTabIndex, responseEditor } = useGraphiQL(pick("tabs", "activeTabIndex", "responseEditor"));
  const { updateActiveTabValues } = useGraphiQLActions();
  const tab = tabs[activeTabIndex];
  const list = useRef(null);
  useChanges();
  const log = logs.get(tab.id);
  const shown = log ? listed(log) : [];
  const last = shown.at(-1)?.number;
  useEffect(() => {
    if (list.current && log?.chosen === null) list.current.scrollTop = list.current.scrollHeight;
  }, [last, log]);
  if (!log) return null;

  const choose = (event) => {
    update(log, { chosen: event.number === last && log.state !== "ended" ? null : event.number });
    const response = JSON.stringify(event.result, null, 2);
    responseEditor.setValue(response);
    updateActiveTabValues({ response });
  };
  const pause = () => {
    update(log, { pausedAt: log.pausedAt === null ? log.count : null, chosen: null });
    if (log.pausedAt === null && log.events.length) log.show(log.events.at(-1).result);
  };
  const clear = () => {
    update(log, { events: [], count: 0, pausedAt: log.pausedAt === null ? null : 0, chosen: null, since: new Date() });
    responseEditor.setValue("");
    updateActiveTabValues({ response: "" });
  };
  const held = log.count - (log.pausedAt ?? log.count);
  const words = {
    connecting: "Connecting",
    open: log.count ? "Listening" : `Waiting, no event since ${log.since && clock(log.since).slice(0, 8)}`,
    ended: "Ended",
  };
  return (
    <section className="log" aria-label="Events">
      <header>
        <b role="status">{log.pausedAt === null ? words[log.state] : `Paused${held ? `, ${held} more` : ""}`}</b>
        <span>{log.count === 1 ? "1 event" : `${log.count} events`}</span>
        {(log.state === "open" || log.pausedAt !== null) && <button type="button" onClick={pause}>{log.pausedAt === null ? "Pause" : "Resume"}</button>}
        <button type="button" onClick={clear} disabled={!log.events.length}>Clear</button>
      </header>
      <ol ref={list}>
        {shown.map((event) => (
          <li key={event.number}>
            <button type="button" aria-pressed={event.number === (log.chosen ?? last)} onClick={() => choose(event)}>
              <span>{event.isEvent ? event.number : "end"}</span>
              <time>{clock(event.at)}</time>
              <code>{summary(event.result)}</code>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}
