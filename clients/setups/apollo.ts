import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from "@apollo/client";
import type { FieldMergeFunction, FieldReadFunction, TypePolicies } from "@apollo/client/cache";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import { OperationTypeNode } from "graphql";
import type { Client } from "graphql-ws";
import { overSocket } from "./graphql-ws.ts";
import { resuming } from "./resuming.ts";
import { signed } from "./signed.ts";
import type { Token } from "./token.ts";

const ofHomework = ["clientId", "isOverdue", "offset", "orderBy", "sessionId", "status", "submittedSince", "timeState"];

/** The arguments of each list other than `first` and `after`: each combination is cached as a list of its own. */
export const typePolicies = {
  Query: {
    fields: {
      assignments: pages(ofHomework),
      auditEvents: pages(["clientId"]),
      books: pages(["isTest", "moduleId", "search"]),
      clients: pages(),
      sessions: pages(["offset", "orderBy", "timeState"]),
      submissions: pages(["clientId", "since"]),
    },
  },
  Session: { fields: { assignments: pages(["orderBy", "status"]) } },
  // Without an id: objects of their parent, to which each query adds its fields.
  Lateness: { merge: true },
  Progress: { merge: true },
  Viewer: { merge: true },
  // Their id is of an event, which is not looked up again: the cache would keep all of them.
  AssignmentChange: { keyFields: false },
  ReminderDue: { keyFields: false },
} satisfies TypePolicies;

/**
 * `fetchMore` adds the page behind `after` to the list. The rows of `nodes` and of `edges` are kept in one list of
 * edges, so that queries may use either. A query without rows, such as one of `totalCount`, does not make the list empty.
 */
function pages(keyArgs: string[] | false = false) {
  const policy = relayStylePagination(keyArgs) as { merge: FieldMergeFunction; read: FieldReadFunction };
  const merge: FieldMergeFunction = (existing, { nodes, ...incoming }, options) => {
    const __typename = incoming.__typename?.replace(/Connection$/, "Edge");
    const edges = incoming.edges ?? nodes?.map((node: unknown) => ({ __typename, node }));
    if (isBehindUnknown(existing, options.args?.["after"])) return existing;
    return policy.merge(existing, { ...incoming, edges, hasRows: !!edges || existing?.hasRows }, options);
  };
  const read: FieldReadFunction = (existing, options) => {
    const { edges, ...list } = policy.read(existing, options) ?? {};
    if (!existing?.hasRows) return existing && { ...list, pageInfo: existing.pageInfo };
    return { ...list, edges, nodes: edges.map(({ node }: { node: unknown }) => node) };
  };
  return { keyArgs, merge, read };
}

/** Whether the list no longer has the cursor of this page, because it was fetched again meanwhile: rows between may be missing. */
function isBehindUnknown(list: { edges: { cursor?: string }[] } | undefined, after?: string | null) {
  return !!after && !!list?.edges.length && !list.edges.some(({ cursor }) => cursor === after);
}

export async function sha256(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

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
