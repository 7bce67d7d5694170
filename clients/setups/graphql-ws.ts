import { createClient } from "graphql-ws";
import type { Token } from "./token.ts";

/** `webSocketImpl` is the class of sockets: in Node before 22, or behind a proxy, that of npm `ws`. */
export function overSocket(url: string, token: Token, webSocketImpl?: unknown) {
  let given: string, rejected: string | undefined;
  return createClient({
    url: url.replace("http", "ws"),
    webSocketImpl,
    connectionParams: async () => ({ authorization: `bearer ${(given = await token(rejected))}` }), // for each connection
    on: { closed: (event) => (rejected = (event as { code?: number }).code === 4403 ? given : undefined) },
    retryAttempts: Infinity,
    shouldRetry: () => true, // also if the connection is refused, as during a restart of the service
  });
}
