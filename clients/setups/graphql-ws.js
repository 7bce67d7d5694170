import { createClient } from "graphql-ws";

export function overSocket(url, token) {
  let given, refused;
  return createClient({
    url: url.replace("http", "ws"),
    connectionParams: async () => ({ authorization: `bearer ${(given = await token(refused))}` }), // each time anew
    on: { closed: ({ code }) => (refused = code === 4403 ? given : undefined) },
    retryAttempts: Infinity,
    shouldRetry: () => true, // also where nobody answers; else it gives up while the service restarts
  });
}
