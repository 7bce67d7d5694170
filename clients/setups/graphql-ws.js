import { createClient } from "graphql-ws";

export function overSocket(url, token) {
  return createClient({
    url: url.replace("http", "ws"),
    connectionParams: async () => ({ authorization: `bearer ${await token()}` }), // for every connection anew
    retryAttempts: Infinity,
    shouldRetry: () => true, // also where nobody answers; else it gives up while the service restarts
  });
}
