import { GraphQLClient } from "graphql-request";
import { signed } from "./signed.ts";
import type { Token } from "./token.ts";

export function graphqlRequest(url: string, token: Token) {
  return new GraphQLClient(url, { fetch: signed(token) });
}
