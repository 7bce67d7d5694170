// A token that is refused: each client asks for another and sends again, once, set up as docs/clients.md shows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fetchQuery } from "relay-runtime";
import { caregiver, graphql } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import ONE from "../made/relay/homeworkOneQuery.graphql.js";
import { apollo } from "../setups/apollo.ts";
import { graphqlRequest } from "../setups/graphql-request.ts";
import { overEvents } from "../setups/graphql-sse.ts";
import { overSocket } from "../setups/graphql-ws.ts";
import { relay } from "../setups/relay.ts";
import { tokenFrom } from "../setups/token.ts";
import { urql } from "../setups/urql.ts";
import { SESSION } from "./apollo-operations.js";

const ROLE = "{ viewer { role } }";

const ways = {
  "Apollo Client": async (token) => {
    const { data } = await apollo(graphql, token).client.query({ query: SESSION, variables: { id: "2" } });
    return data.session.title;
  },
  urql: async (token) => {
    const { data, error } = await urql(graphql, token).client.query(SESSION, { id: "2" }).toPromise();
    if (error) throw error;
    return data.session.title;
  },
  "graphql-request": async (token) => (await graphqlRequest(graphql, token).request(ROLE)).viewer.role,
  "graphql-sse": async (token) =>
    (await overEvents(graphql, token).iterate({ query: ROLE }).next()).value.data.viewer.role,
  Relay: async (token) => {
    const { node } = await fetchQuery(relay(graphql, token).environment, ONE, {
      id: btoa("Assignment:1"),
    }).toPromise();
    return node.name;
  },
};

const statuses = (requests) => requests.map((request) => request.slice(-3));

for (const [name, ask] of Object.entries(ways)) {
  test(`${name}: a token that is refused is fetched anew, and the request sent again`, async () => {
    const tokens = ["expired", caregiver];
    let answer;

    const requests = await sent(async () => (answer = await ask(tokenFrom(async () => tokens.shift()))));

    assert.ok(["After the move", "CAREGIVER", "Sleep diary"].includes(answer));
    assert.deepEqual([statuses(requests)[0], statuses(requests).at(-1)], ["401", "200"]);
    assert.deepEqual(tokens, []);
  });

  if (name === "graphql-sse") continue; // comes again and again, later and later
  test(`${name}: where the other token is refused too, that is the answer`, async () => {
    const requests = await sent(() => assert.rejects(ask(tokenFrom(async () => "nobody"))));

    assert.deepEqual(statuses(requests), ["401", "401"]);
  });
}

test("graphql-ws: the token that closed a connection is fetched anew", async () => {
  const tokens = ["expired", caregiver];
  const client = overSocket(graphql, tokenFrom(async () => tokens.shift()));

  const { value } = await client.iterate({ query: ROLE }).next();

  assert.deepEqual(value.data, { viewer: { role: "CAREGIVER" } });
  await client.dispose();
});

test("the token: however many are refused at once, one other is fetched", async () => {
  const tokens = ["expired", caregiver, "one too many"];
  const client = graphqlRequest(graphql, tokenFrom(async () => tokens.shift()));

  await Promise.all([1, 2, 3].map(() => client.request(ROLE)));

  assert.deepEqual(tokens, ["one too many"]);
});
