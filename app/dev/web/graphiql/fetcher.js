// Sends operations as POST requests. The response of a subscription is an event stream.

import { forgetResponse, noteResponse } from "./facts.jsx";
import { forgetLog, shownResult } from "./log.jsx";
import { currentTab, resumedStream, startStream } from "./streams.jsx";
import { noteToken } from "./tokens.jsx";

const JSON_KINDS = "application/graphql-response+json, application/json;q=0.9";
export const EVENTS = "text/event-stream";
const EMPTY = "The query is empty: choose an example, or write one.";
const CUT_OFF = "The stream ended: the service stopped or is unreachable. Run the subscription again when it is back.";

/** A fetcher for GraphiQL, which shows a thrown object that is no Error without a stack. */
export function fetcherOf(endpoint) {
  async function post(request, headers, accept, signal) {
    try {
      return await fetch(endpoint, {
        method: "POST",
        headers: { Accept: accept, "Content-Type": "application/json", ...headers },
        body: JSON.stringify(request),
        cache: "no-store",
        signal,
      });
    } catch (error) {
      throw { message: `No response from ${endpoint}: the service is down or unreachable (${error.message}).` };
    }
  }

  function subscribe(request, headers, { tab, open, next: pass, error, complete }) {
    const next = (result, isEvent) => {
      noteToken(result, headers);
      pass(result, isEvent);
    };
    const stop = new AbortController();
    const run = async () => {
      const since = performance.now();
      const response = await post(request, headers, `${EVENTS}, ${JSON_KINDS}`, stop.signal);
      if (!response.headers.get("Content-Type")?.startsWith(EVENTS)) return next(await jsonOf(response, since, tab), false);
      noteResponse(tab, response, since);
      open();
      try {
        for await (const event of eventsOf(response.body)) {
          if (event.kind === "complete") return;
          if (event.kind === "next") next(JSON.parse(event.data), true);
        }
      } catch (broken) {
        if (stop.signal.aborted) throw broken; // the user stopped it
      }
      next({ errors: [{ message: CUT_OFF }], ...shownResult(tab) }, false); // keeps the shown event on the page
    };
    run().then(complete, (broken) => stop.signal.aborted || error(broken));
    return { unsubscribe: () => stop.abort() };
  }

  return async (request, { headers, documentAST } = {}) => {
    const resumed = resumedStream();
    if (resumed) return resumed;
    const tab = request.operationName === "IntrospectionQuery" ? null : currentTab(); // GraphiQL's own request
    forgetResponse(tab);
    if (!request.query.replace(/#.*/g, "").trim()) throw { message: EMPTY };
    if (isSubscription(documentAST, request.operationName)) {
      return startStream((observer) => subscribe(request, headers, observer));
    }
    forgetLog(tab);
    const since = performance.now();
    const result = await jsonOf(await post(request, headers, JSON_KINDS), since, tab);
    noteToken(result, headers);
    return result;
  };
}

export function isSubscription(document, name) {
  const operations = document?.definitions.filter(({ operation }) => operation) ?? [];
  const chosen = operations.find((each) => each.name?.value === name) ?? operations[0];
  return chosen?.operation === "subscription";
}

async function jsonOf(response, since, tab) {
  const text = await response.text();
  let result;
  try {
    result = JSON.parse(text);
  } catch {
    throw { message: `The response, ${response.status} ${response.statusText}, is not JSON.` };
  } finally {
    noteResponse(tab, response, since, text, result?.extensions?.cost);
  }
  return result;
}

async function* eventsOf(body) {
  let rest = "";
  for await (const text of chunksOf(body.pipeThrough(new TextDecoderStream()))) {
    const blocks = (rest + text).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const { event: kind, data } = Object.fromEntries(block.split("\n").map((line) => /^(\w*): ?([^]*)$/.exec(line).slice(1)));
      if (kind) yield { kind, data };
    }
  }
}

/** Not every browser can iterate over a stream. */
async function* chunksOf(stream) {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}
