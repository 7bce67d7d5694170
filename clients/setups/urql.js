import { Client, cacheExchange, fetchExchange, subscriptionExchange } from "@urql/core";
import { persistedExchange } from "@urql/exchange-persisted";
import { overSocket } from "./graphql-ws.js";
import { resuming } from "./resuming.js";
import { signed } from "./signed.js";

export function urql(url, token, persisted = { preferGetForPersistedQueries: false }) {
  const socket = overSocket(url, token);
  const forwardSubscription = ({ query = "", variables, extensions }) => ({
    subscribe: (sink) => ({ unsubscribe: resuming(socket).subscribe({ query, variables, extensions }, sink) }),
  });
  const client = new Client({
    url,
    preferGetMethod: false, // variables belong in the body, because proxies log addresses
    fetch: signed(token),
    exchanges: [
      cacheExchange,
      persistedExchange(persisted),
      fetchExchange,
      subscriptionExchange({ forwardSubscription }),
    ],
  });
  return { client, socket, close: () => socket.dispose() };
}
