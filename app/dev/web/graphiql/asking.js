// How the page asks: by posts to the endpoint; a subscription is answered by a stream of events on its own post.

import { resumedStream, startStream } from "./streams.jsx";

const JSON_KINDS = "application/graphql-response+json, application/json;q=0.9";
const EVENTS = "text/event-stream";
const CUT_OFF = "Nothing more will be heard: the service stopped or is out of reach. Run it again when it is back.";

/** What GraphiQL calls a fetcher. What it is told as an object with a message is shown without a stack. */
export function asker(endpoint) {
  async function post(asked, headers, accept, signal) {
    try {
      return await fetch(endpoint, {
        method: "POST",
        headers: { Accept: accept, "Content-Type": "application/json", ...headers },
        body: JSON.stringify(asked),
        cache: "no-store",
        signal,
      });
    } catch (fault) {
      throw { message: `No answer from ${endpoint}: the service is down or out of reach (${fault.message}).` };
    }
  }

  function listen(asked, headers, { next, error, complete }) {
    const stop = new AbortController();
    const run = async () => {
      const response = await post(asked, headers, `${EVENTS}, ${JSON_KINDS}`, stop.signal);
      if (!response.headers.get("Content-Type")?.startsWith(EVENTS)) return next(await answerOf(response));
      let last = {};
      try {
        for await (const event of eventsOf(response.body)) {
          if (event.kind === "complete") return;
          if (event.kind === "next") next((last = JSON.parse(event.data)));
        }
      } catch (fault) {
        if (stop.signal.aborted) throw fault; // by the person; otherwise the connection broke
      }
      next({ errors: [{ message: CUT_OFF }], ...last }); // what was heard last stays
    };
    run().then(complete, (fault) => stop.signal.aborted || error(fault));
    return { unsubscribe: () => stop.abort() };
  }

  return async (asked, { headers, documentAST } = {}) =>
    resumedStream() ??
    (isSubscription(documentAST, asked.operationName)
      ? startStream((observer) => listen(asked, headers, observer))
      : answerOf(await post(asked, headers, JSON_KINDS)));
}

function isSubscription(document, name) {
  const operations = document?.definitions.filter(({ operation }) => operation) ?? [];
  const meant = operations.find((each) => each.name?.value === name) ?? operations[0];
  return meant?.operation === "subscription";
}

async function answerOf(response) {
  try {
    return await response.json();
  } catch {
    throw { message: `The answer, ${response.status} ${response.statusText}, is not JSON.` };
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

/** Not every browser goes through a stream by itself. */
async function* chunksOf(stream) {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}
