import { createClient } from "graphql-sse";

export function overEvents(url, token) {
  return createClient({
    url,
    headers: async () => ({ authorization: `bearer ${await token()}` }), // for every connection anew
    retryAttempts: Infinity,
  });
}
