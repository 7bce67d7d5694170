// Sends operations as POST requests. The response of a subscription is an event stream.

import { resumedStream, startStream } from "./streams.jsx";

const JSON_KINDS = "application/graphql-response+json, application/json;q=0.9";
const EVENTS = "text/event-stream";
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

  function subscribe(request, headers, { next, error, complete }) {
    const stop = new AbortController();
    const run = async () => {
      const response = await post(request, headers, `${EVENTS}, ${JSON_KINDS}`, stop.signal);
      if (!response.headers.get("Content-Type")?.startsWith(EVENTS)) return next(await jsonOf(response));
      let last = {};
      try {
        for await (const event of eventsOf(response.body)) {
          if (event.kind === "complete") return;
          if (event.kind === "next") next((last = JSON.parse(event.data)));
        }
      } catch (broken) {
        if (stop.signal.aborted) throw broken; // the user stopped it
      }
      next({ errors: [{ message: CUT_OFF }], ...last }); // keeps the last event on the page
    };
    run().then(complete, (broken) => stop.signal.aborted || error(broken));
    return { unsubscribe: () => stop.abort() };
  }

  return async (request, { headers, documentAST } = {}) =>
    resumedStream() ??
    (isSubscription(documentAST, request.operationName)
      ? startStream((observer) => subscribe(request, headers, observer))
      : jsonOf(await post(request, headers, JSON_KINDS)));
}

function isSubscription(document, name) {
  const operations = document?.definitions.filter(({ operation }) => operation) ?? [];
  const chosen = operations.find((each) => each.name?.value === name) ?? operations[0];
  return chosen?.operation === "subscription";
}

async function jsonOf(response) {
  try {
    return await response.json();
  } catch {
    throw { message: `The response, ${response.status} ${response.statusText}, is not JSON.` };
  }
}

async function* eventsOf(body) {
  let rest = "";
  for await (const text of chunksOf(body.pipeThrough(new TextDecoderStream()))) {
    const blocks = (rest + text).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const { event: kind, data } = Object.fromEntries(block.split("\n").map((line) => /^(\w*): ?(.*)$/.exec(line).slice(1)));
      if (kind) yield { kind, data };
    }
  }
}

/** Not every browser can iterate over a stream. */
async function* chunksOf(stream) {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}
