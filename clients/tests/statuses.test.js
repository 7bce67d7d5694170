// What clients report for a result with errors (294), and for a document that does not fit the schema (422).

import { gql } from "@apollo/client";
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fetchQuery } from "relay-runtime";
import { caregiver, graphql } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import ONE from "../made/relay/homeworkOneQuery.graphql.js";
import { apollo } from "../setups/apollo.ts";
import { graphqlRequest } from "../setups/graphql-request.ts";
import { relay } from "../setups/relay.ts";
import { urql } from "../setups/urql.ts";

const [byApollo, byUrql, byRelay] = [apollo, urql, relay].map((setup) => setup(graphql, async () => caregiver));
const byGraphqlRequest = graphqlRequest(graphql, async () => caregiver);
after(() => [byApollo, byUrql, byRelay].forEach(({ close }) => close()));

const PARTIAL = 'query Partial { kind: __typename missing: session(id: "999") { title } }';
const INVALID = "query Invalid { sessions { name } }";

const codes = (errors) => errors.map(({ extensions }) => extensions.code);

/** Each returns the data and the error codes that the client reports for a document. */
const CLIENTS = {
  "Apollo Client": async (text) => {
    const { data, error } = await byApollo.client.query({ query: gql(text), errorPolicy: "all" });
    return [data, codes(error.errors)];
  },
  urql: async (text) => {
    const { data, error } = await byUrql.client.query(text, {}).toPromise();
    return [data, codes(error.graphQLErrors)];
  },
  "graphql-request": async (text) => {
    const { response } = await byGraphqlRequest.request(text).catch((error) => error);
    return [response.data, codes(response.errors)];
  },
};

/** What `ask` returns, and the status of the last response that the client received meanwhile. */
async function withStatus(ask) {
  let result;
  const requests = await sent(async () => (result = await ask()));
  return [requests.at(-1).slice(-3), result];
}

for (const [name, ask] of Object.entries(CLIENTS)) {
  test(`${name}: a result with errors is a 294, and its data and its codes are reported`, async () => {
    const result = [{ kind: "Query", missing: null }, ["NOT_FOUND"]];
    assert.deepEqual(await withStatus(() => ask(PARTIAL)), ["294", result]);
  });

  test(`${name}: a document that does not fit the schema is a 422, and its code is reported`, async () => {
    const result = [undefined, ["GRAPHQL_VALIDATION_FAILED"]];
    assert.deepEqual(await withStatus(() => ask(INVALID)), ["422", result]);
  });
}

/** The data that Relay reports for a document in the place of the compiled one. */
const askRelay = (text) => {
  const document = { ...ONE, params: { ...ONE.params, text, cacheID: text } };
  return fetchQuery(byRelay.environment, document, { id: "999" }).toPromise();
};

test("Relay: a result with errors is a 294, and its data is reported without its errors", async () => {
  const partial = "query Partial($id: ID!) { node: session(id: $id) { __typename id } }";

  assert.deepEqual(await withStatus(() => askRelay(partial)), ["294", { node: null }]);
});

test("Relay: a document that does not fit the schema is a 422, and its code is reported", async () => {
  const ask = () => askRelay(INVALID).catch((error) => codes(error.source.errors));

  assert.deepEqual(await withStatus(ask), ["422", ["GRAPHQL_VALIDATION_FAILED"]]);
});
