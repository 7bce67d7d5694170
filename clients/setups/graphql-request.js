import { GraphQLClient } from "graphql-request";
import { signed } from "./signed.js";

export function graphqlRequest(url, token) {
  return new GraphQLClient(url, { fetch: signed(token) });
}
