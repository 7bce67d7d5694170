import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from "@apollo/client";
import { SetContextLink } from "@apollo/client/link/context";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import { OperationTypeNode } from "graphql";
import { overSocket } from "./graphql-ws.js";
import { sha256 } from "./sha256.js";

export function apollo(url, token, persisted = { sha256 }) {
  const http = ApolloLink.from([
    new SetContextLink(async ({ headers }) => ({ headers: { ...headers, authorization: `bearer ${await token()}` } })),
    new PersistedQueryLink(persisted),
    new HttpLink({ uri: url }),
  ]);
  const socket = overSocket(url, token);
  const isSubscription = ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION;
  const link = ApolloLink.split(isSubscription, new GraphQLWsLink(socket), http);
  const filters = ["clientId", "isOverdue", "sessionId", "status", "submittedSince", "timeState"];
  const fields = { assignments: relayStylePagination(filters) };
  const cache = new InMemoryCache({ typePolicies: { Query: { fields } } });
  return { client: new ApolloClient({ link, cache }), close: () => socket.dispose() };
}
