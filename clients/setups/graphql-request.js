import { GraphQLClient } from "graphql-request";

export function graphqlRequest(url, token) {
  return new GraphQLClient(url, { headers: () => ({ authorization: `bearer ${token()}` }) });
}
