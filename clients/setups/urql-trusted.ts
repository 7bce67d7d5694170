import type { persistedExchange } from "@urql/exchange-persisted";
import type { DocumentNode } from "graphql";

/** For documents of graphql-codegen, whose ids are in `persisted-documents.json`. */
export const trusted: Parameters<typeof persistedExchange>[0] = {
  generateHash: async (_, document: DocumentNode & { __meta__?: { hash: string } }) => document.__meta__?.hash,
  enforcePersistedQueries: true,
  enableForMutation: true,
  enableForSubscriptions: true,
  preferGetForPersistedQueries: false,
};
