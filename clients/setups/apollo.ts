import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from "@apollo/client";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import { OperationTypeNode } from "graphql";
import type { Client } from "graphql-ws";
import { overSocket } from "./graphql-ws.ts";
import { resuming } from "./resuming.ts";
import { sha256 } from "./sha256.ts";
import { signed } from "./signed.ts";
import type { Token } from "./token.ts";

const ofHomework = ["clientId", "isOverdue", "orderBy", "sessionId", "status", "submittedSince", "timeState"];

/** The arguments of each list other than paging: each combination is cached as a list of its own. */
export const typePolicies = {
  Query: {
    fields: {
      assignments: relayStylePagination(ofHomework),
      auditEvents: relayStylePagination(["clientId"]),
      books: relayStylePagination(["isTest", "moduleId", "search"]),
      clients: relayStylePagination(),
      sessions: relayStylePagination(["orderBy", "timeState"]),
      submissions: relayStylePagination(["clientId", "since"]),
    },
  },
  Session: { fields: { assignments: relayStylePagination(["orderBy", "status"]) } },
};

export function apollo(url: string, token: Token, persisted: PersistedQueryLink.Options = { sha256 }) {
  const socket = overSocket(url, token);
  const listener = persisted.generateHash ? byId(resuming(socket)) : resuming(socket);
  const isSubscription = ({ operationType }: ApolloLink.Operation) => operationType === OperationTypeNode.SUBSCRIPTION;
  const link = ApolloLink.from([
    new PersistedQueryLink(persisted),
    ApolloLink.split(isSubscription, new GraphQLWsLink(listener), new HttpLink({ uri: url, fetch: signed(token) })),
  ]);
  const client = new ApolloClient({ link, cache: new InMemoryCache({ typePolicies }) });
  return { client, socket, close: () => socket.dispose() };
}

/** Sends trusted documents by id only (in `extensions`), because a manifest may format the text differently. */
const byId = (client: Client): Client => ({
  ...client,
  subscribe: (request, sink) => client.subscribe({ ...request, query: "" }, sink),
});
