import type { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import type { DocumentNode } from "graphql";

/** For documents of graphql-codegen, whose ids are in `persisted-documents.json`. */
export const trusted: PersistedQueryLink.Options = {
  generateHash: (document: DocumentNode & { __meta__?: { hash: string } }) => document.__meta__!.hash,
};
