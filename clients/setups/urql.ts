import { Client, cacheExchange, type Exchange, fetchExchange, subscriptionExchange } from "@urql/core";
import { persistedExchange } from "@urql/exchange-persisted";
import { overSocket } from "./graphql-ws.ts";
import { resuming, type Sink } from "./resuming.ts";
import { signed } from "./signed.ts";
import type { Token } from "./token.ts";

type Persisted = Parameters<typeof persistedExchange>[0];

export function urql(
  url: string,
  token: Token,
  persisted: Persisted = { preferGetForPersistedQueries: false },
  cache: Exchange = cacheExchange,
) {
  const socket = overSocket(url, token);
  const client = new Client({
    url,
    preferGetMethod: false, // variables belong in the body, because proxies log addresses
    fetch: signed(token),
    exchanges: [
      cache,
      persistedExchange(persisted),
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: (request) => ({
          subscribe: (sink) => ({
            unsubscribe: resuming(socket).subscribe({ ...request, query: request.query ?? "" }, sink as Sink),
          }),
        }),
      }),
    ],
  });
  return { client, socket, close: () => socket.dispose() };
}
