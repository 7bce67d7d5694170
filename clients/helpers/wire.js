// What goes over the wire.

/** What was sent by HTTP while `run` ran: each as how, what its operation was named by, and the answer's status. */
export async function sent(run) {
  const requests = [];
  const real = globalThis.fetch;
  globalThis.fetch = async (address, request) => {
    const answer = await real(address, request);
    requests.push(`${read(new URL(address), request)}: ${answer.status}`);
    return answer;
  };
  try {
    await run();
  } finally {
    globalThis.fetch = real;
  }
  return requests;
}

function read(address, { method = "GET", body }) {
  const said = body ? JSON.parse(body) : Object.fromEntries(address.searchParams);
  const extensions = typeof said.extensions === "string" ? JSON.parse(said.extensions) : said.extensions;
  const named = { text: said.query, hash: extensions?.persistedQuery?.sha256Hash, id: said.documentId };
  const by = Object.keys(named).filter((name) => named[name]);
  return `${method} by ${by.join(" and ")}`;
}

/** The names of the headers of the first request that `run` sends. */
export async function headersSent(run) {
  const real = globalThis.fetch;
  const first = new Promise((tell) => {
    globalThis.fetch = (address, request) => {
      tell([...new Headers(request.headers).keys()]);
      return real(address, request);
    };
  });
  try {
    await Promise.resolve(run()).catch(() => {});
    return await first;
  } finally {
    globalThis.fetch = real;
  }
}
