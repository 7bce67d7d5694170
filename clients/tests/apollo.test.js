// Apollo Client, set up as docs/clients.md shows.

import { CombinedGraphQLErrors } from "@apollo/client";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { buildSchema } from "graphql";
import { firstValueFrom } from "rxjs";
import { caregiver, graphql, homework, whileAssigning } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import { apollo, sha256, typePolicies } from "../setups/apollo.ts";
import { ASSIGN, CHANGES, HOMEWORK, SESSION, SESSIONS } from "./apollo-operations.js";

const { client, close } = apollo(graphql, async () => caregiver);
after(close);

const codes = (error) => CombinedGraphQLErrors.is(error) && error.errors.map(({ extensions }) => extensions.code);
const names = ({ assignments }) => assignments.edges.map(({ node }) => node.name);
const isNoPage = (name) => !["after", "first"].includes(name);
const running = { query: HOMEWORK, variables: { timeState: "RUNNING" } };

const again = { ...running, fetchPolicy: "network-only" };

test("Apollo Client: a query that is new goes by its hash, then with its text, and from then on by its hash", async () => {
  const first = await sent(() => client.query(again));
  const second = await sent(() => client.query(again));

  assert.deepEqual(first, ["POST by hash: 422", "POST by text and hash: 200"]);
  assert.deepEqual(second, ["POST by hash: 200"]);
});

test("Apollo Client: a query may go by its hash in the address", async () => {
  const byGet = apollo(graphql, async () => caregiver, { sha256, useGETForHashedQueries: true });

  const first = await sent(() => byGet.client.query({ query: SESSION, variables: { id: "1" } }));
  const second = await sent(() => byGet.client.query({ query: SESSION, variables: { id: "2" } }));

  assert.deepEqual(first, ["GET by hash: 422", "POST by text and hash: 200"]);
  assert.deepEqual(second, ["GET by hash: 200"]);
  byGet.close();
});

test("Apollo Client: fetchMore adds the next pages to the list in the cache", async () => {
  const list = client.watchQuery(running);
  const shown = list.subscribe(() => {});
  const { data: page } = await list.refetch();
  assert.deepEqual(names(page), ["Three good things", "Evening routine"]);
  assert.equal(page.assignments.totalCount, 4);

  await list.fetchMore({ variables: { after: page.assignments.pageInfo.endCursor } });

  const data = client.readQuery(running);
  assert.deepEqual(names(data), ["Three good things", "Evening routine", "Mood check", "Sleep diary"]);
  assert.equal(data.assignments.pageInfo.hasNextPage, false);
  shown.unsubscribe();
});

test("Apollo Client: each list of the schema keeps its pages by all its arguments but those of the page", async () => {
  const schema = buildSchema(await readFile(new URL("../../schema.graphql", import.meta.url), "utf8"));
  const filters = Object.values(schema.getTypeMap())
    .flatMap((type) => Object.values(type.getFields?.() ?? {}).map((field) => [type.name, field]))
    .filter(([, field]) => String(field.type).endsWith("Connection!"))
    .map(([type, { name, args }]) => [type, name, args.map((each) => each.name).filter(isNoPage).sort()]);

  const kept = Object.entries(typePolicies).flatMap(([type, { fields = {} }]) =>
    Object.entries(fields).map(([name, { keyArgs }]) => [type, name, keyArgs || []]),
  );

  assert.deepEqual(kept.sort(), filters.sort());
});

test("Apollo Client: fetchMore adds the next pages of other lists too", async () => {
  const list = client.watchQuery({ query: SESSIONS });
  const shown = list.subscribe(() => {});
  const { data: page } = await list.refetch();

  await list.fetchMore({ variables: { after: page.sessions.pageInfo.endCursor } });

  assert.equal(page.sessions.edges.length, 1);
  assert.equal(client.readQuery({ query: SESSIONS }).sessions.edges.length, 2);
  shown.unsubscribe();
});

test("Apollo Client: a mutation answers what was made, and it is in the cache", async () => {
  const { data } = await client.mutate({ mutation: ASSIGN, variables: { input: homework(["4"]) } });

  const { assignments, userErrors } = data.assignHomework;
  assert.deepEqual(userErrors, []);
  assert.deepEqual(
    assignments.map(({ __typename, name, status }) => [__typename, name, status]),
    [["Assignment", "Three good things", "PENDING"]],
  );
  assert.equal(client.cache.extract()[`Assignment:${assignments[0].id}`].status, "PENDING");
});

test("Apollo Client: a mutation that is sent again with its Idempotency-Key is carried out once", async () => {
  const context = { headers: { "idempotency-key": crypto.randomUUID() } };
  const mutation = { mutation: ASSIGN, variables: { input: homework() }, context };

  const { data: first } = await client.mutate(mutation);
  const { data: second } = await client.mutate(mutation);

  assert.equal(first.assignHomework.assignments.length, 1);
  assert.deepEqual(second, first);
});

test("Apollo Client: what a person can mend is in the payload, and no error", async () => {
  const { data, error } = await client.mutate({
    mutation: ASSIGN,
    variables: { input: homework(["4", "999"]) },
  });

  assert.equal(error, undefined);
  assert.deepEqual(data.assignHomework, {
    __typename: "AssignHomeworkPayload",
    assignments: [],
    userErrors: [{ __typename: "UserError", code: "NOT_FOUND", field: ["bookIds", "1"] }],
  });
});

test("Apollo Client: a subscription tells of homework that is assigned, by graphql-ws", async () => {
  const told = firstValueFrom(client.subscribe({ query: CHANGES }));

  const { data } = await whileAssigning(told);

  assert.deepEqual(
    [data.assignmentChanged.what, data.assignmentChanged.assignment.name],
    ["ASSIGNED", "Evening routine"],
  );
});

test("Apollo Client: an error of a subscription arrives in `next`", async () => {
  const { data, error } = await firstValueFrom(client.subscribe({ query: CHANGES, variables: { after: "nothing" } }));

  assert.equal(data, undefined);
  assert.deepEqual(codes(error), ["NOT_FOUND"]);
});

test("Apollo Client: what is not there is null, and an error with its code", async () => {
  const answer = await client.query({ query: SESSION, variables: { id: "999" }, errorPolicy: "all" });

  assert.deepEqual(answer.data, { session: null });
  assert.deepEqual(codes(answer.error), ["NOT_FOUND"]);
});

test("Apollo Client: who is not signed in hears it as an error with its code", async () => {
  const stranger = apollo(graphql, async () => "nobody");

  const asked = stranger.client.query({ query: SESSION, variables: { id: "1" } });

  await assert.rejects(asked, (error) => assert.deepEqual(codes(error), ["UNAUTHENTICATED"]) ?? true);
  stranger.close();
});
