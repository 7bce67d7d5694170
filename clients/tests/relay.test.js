// Relay, set up as docs/clients.md shows, with what relay-compiler makes of `schema.graphql` and of clients/relay.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createElement } from "react";
import { RelayEnvironmentProvider, useLazyLoadQuery, usePaginationFragment } from "react-relay";
import { act } from "react-test-renderer";
import { createOperationDescriptor, fetchQuery, requestSubscription } from "relay-runtime";
import { rendered } from "../helpers/rendered.js";
import { caregiver, graphql, whileAssigning } from "../helpers/service.js";
import LIST from "../made/relay/homework_list.graphql.js";
import CHANGES from "../made/relay/homeworkChangesSubscription.graphql.js";
import ONE from "../made/relay/homeworkOneQuery.graphql.js";
import HOMEWORK from "../made/relay/homeworkQuery.graphql.js";
import ROLE from "../made/relay/homeworkRoleQuery.graphql.js";
import TIME_ZONE from "../made/relay/homeworkTimeZoneQuery.graphql.js";
import { relay } from "../setups/relay.ts";

const { environment, close } = relay(graphql, async () => caregiver);
after(close);

const running = { count: 2, timeState: "RUNNING" };
let list;

function Homework() {
  const query = useLazyLoadQuery(HOMEWORK, running);
  list = usePaginationFragment(LIST, query);
  return list.data.assignments.edges.map(({ node }) => createElement("li", { key: node.id }, node.name));
}

test("Relay: loadNext adds the next page to a list that is shown", async () => {
  await fetchQuery(environment, HOMEWORK, running).toPromise();
  const page = createElement(RelayEnvironmentProvider, { environment }, createElement(Homework));
  const shown = await rendered(page);
  assert.deepEqual(shown(), ["Three good things", "Evening routine"]);
  assert.equal(list.data.assignments.totalCount, 4);

  await act(() => new Promise((onComplete) => list.loadNext(2, { onComplete })));

  assert.deepEqual(shown(), ["Three good things", "Evening routine", "Mood check", "Sleep diary"]);
  assert.equal(list.hasNext, false);
});

test("Relay: a query of as many rows as are shown keeps the pages", async () => {
  const count = list.data.assignments.edges.length;

  await act(() => fetchQuery(environment, HOMEWORK, { ...running, count }).toPromise());

  assert.deepEqual([count, list.data.assignments.edges.length, list.hasNext], [4, 4, false]);
});

test("Relay: queries of different fields of an object without an id keep each other's", async () => {
  await fetchQuery(environment, ROLE, {}).toPromise();
  await fetchQuery(environment, TIME_ZONE, {}).toPromise();

  const kept = [ROLE, TIME_ZONE].map((query) => environment.check(createOperationDescriptor(query, {})).status);
  assert.deepEqual(kept, ["available", "available"]);
});

test("Relay: whatever is shown can be looked up by its id alone", async () => {
  const { id, name } = list.data.assignments.edges[0].node;

  const { node } = await fetchQuery(environment, ONE, { id }).toPromise();

  assert.deepEqual(node, { __typename: "Assignment", name, session: { title: "After the move" } });
});

test("Relay: a subscription tells of homework that is assigned, by graphql-ws", async () => {
  const told = new Promise((onNext) =>
    requestSubscription(environment, { subscription: CHANGES, variables: {}, onNext }),
  );

  const { what, assignment } = (await whileAssigning(told)).assignmentChanged;

  assert.deepEqual([what, assignment], ["ASSIGNED", { name: "Evening routine" }]);
});

test("Relay: who is not signed in hears it as an error with its code", async () => {
  const stranger = relay(graphql, async () => "nobody");

  await assert.rejects(fetchQuery(stranger.environment, HOMEWORK, running).toPromise(), ({ source }) => {
    assert.deepEqual(
      source.errors.map(({ extensions }) => extensions.code),
      ["UNAUTHENTICATED"],
    );
    return true;
  });
  stranger.close();
});
