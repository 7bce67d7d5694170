import { createClient } from "graphql-ws";

export function overSocket(url, token) {
  let given, refused;
  return createClient({
    url: url.replace("http", "ws"),
    connectionParams: async () => ({ authorization: `bearer ${(given = await token(refused))}` }), // for each connection
    on: { closed: ({ code }) => (refused = code === 4403 ? given : undefined) },
    retryAttempts: Infinity,
    shouldRetry: () => true, // also if the connection is refused, as during a restart of the service
  });
}
