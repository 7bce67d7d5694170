// graphql-request, set up as docs/clients.md shows.

import { ClientError } from "graphql-request";
import assert from "node:assert/strict";
import { test } from "node:test";
import { caregiver, client as jonas, graphql, homework } from "../helpers/service.js";
import { graphqlRequest } from "../setups/graphql-request.ts";

const client = graphqlRequest(graphql, async () => caregiver);
const SESSION = "query ($id: ID!) { session(id: $id) { title client { name } } }";
const ASSIGN =
  "mutation ($input: AssignHomeworkInput!) { assignHomework(input: $input) { assignments { name } userErrors { code } } }";

const refused = (status, code) => (error) => {
  assert.ok(error instanceof ClientError);
  assert.equal(error.response.status, status);
  assert.deepEqual(
    error.response.errors.map(({ extensions }) => extensions.code),
    [code],
  );
  return true;
};

test("graphql-request: a query is answered", async () => {
  assert.deepEqual(await client.request(SESSION, { id: "2" }), {
    session: { title: "After the move", client: { name: "Zoë Marchetti" } },
  });
});

test("graphql-request: a mutation answers what was made", async () => {
  assert.deepEqual(await client.request(ASSIGN, { input: homework() }), {
    assignHomework: { assignments: [{ name: "Evening routine" }], userErrors: [] },
  });
});

test("graphql-request: what is not there rejects with its code", async () => {
  await assert.rejects(client.request(SESSION, { id: "999" }), refused(294, "NOT_FOUND"));
});

test("graphql-request: who may not do it rejects with its code", async () => {
  const asJonas = graphqlRequest(graphql, async () => jonas);

  await assert.rejects(asJonas.request(ASSIGN, { input: homework() }), refused(294, "FORBIDDEN"));
});

test("graphql-request: who is not signed in rejects with a 401 and its code", async () => {
  const asNobody = graphqlRequest(graphql, async () => "nobody");

  await assert.rejects(asNobody.request(SESSION, { id: "2" }), refused(401, "UNAUTHENTICATED"));
});

test("graphql-request: a document that does not fit the schema rejects with a 422 and its code", async () => {
  await assert.rejects(client.request("{ sessions { name } }"), refused(422, "GRAPHQL_VALIDATION_FAILED"));
});
