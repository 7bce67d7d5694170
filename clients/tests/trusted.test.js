// Relay, urql and Apollo Client by the ids of their documents, against a service that takes none that is not in the
// manifest.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fetchQuery, requestSubscription } from "relay-runtime";
import { firstValueFrom } from "rxjs";
import { caregiver, graphql, homework, whileAssigning } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import CHANGES from "../made/relay-persisted/homeworkChangesSubscription.graphql.js";
import ONE from "../made/relay-persisted/homeworkOneQuery.graphql.js";
import { trusted as trustedByApollo } from "../setups/apollo-trusted.ts";
import { apollo } from "../setups/apollo.ts";
import { relay } from "../setups/relay.ts";
import { trusted } from "../setups/urql-trusted.ts";
import { urql } from "../setups/urql.ts";
import { ASSIGN, CHANGES as CHANGES_TYPED, HOMEWORK } from "../typescript/homework.ts";

const asRelay = relay(graphql, async () => caregiver);
const asUrql = urql(graphql, async () => caregiver, trusted);
const asApollo = apollo(graphql, async () => caregiver, trustedByApollo);
after(() => Promise.all([asRelay.close(), asUrql.close(), asApollo.close()]));

test("Relay, trusted: a query goes by the id that relay-compiler gave it", async () => {
  const id = btoa("Assignment:1");

  const requests = await sent(async () => {
    const { node } = await fetchQuery(asRelay.environment, ONE, { id }).toPromise();
    assert.equal(node.name, "Sleep diary");
  });

  assert.deepEqual(requests, ["POST by id: 200"]);
});

test("Relay, trusted: a subscription goes by its id over the socket", async () => {
  const told = new Promise((onNext, onError) =>
    requestSubscription(asRelay.environment, { subscription: CHANGES, variables: {}, onNext, onError }),
  );

  const { what, assignment } = (await whileAssigning(told)).assignmentChanged;

  assert.deepEqual([what, assignment], ["ASSIGNED", { name: "Evening routine" }]);
});

test("urql, trusted: queries and mutations go by the ids that graphql-codegen gave them", async () => {
  const requests = await sent(async () => {
    const found = await asUrql.client.query(HOMEWORK, { clientId: "2" }).toPromise();
    assert.equal(found.data?.assignments.totalCount, 1);
    const made = await asUrql.client.mutation(ASSIGN, { input: homework() }).toPromise();
    assert.deepEqual(made.data?.assignHomework.userErrors, []);
  });

  assert.deepEqual(requests, ["POST by hash: 200", "POST by hash: 200"]);
});

test("urql, trusted: a subscription goes by its id over the socket", async () => {
  const told = new Promise((tell) => {
    const { unsubscribe } = asUrql.client
      .subscription(CHANGES_TYPED, {})
      .subscribe((result) => (unsubscribe(), tell(result)));
  });

  const { data } = await whileAssigning(told);

  assert.equal(data.assignmentChanged.assignment.name, "Evening routine");
});

test("Apollo Client, trusted: queries and mutations go by the ids that graphql-codegen gave them", async () => {
  const requests = await sent(async () => {
    const found = await asApollo.client.query({ query: HOMEWORK, variables: { clientId: "2" } });
    assert.equal(found.data.assignments.totalCount, 1);
    const made = await asApollo.client.mutate({ mutation: ASSIGN, variables: { input: homework() } });
    assert.deepEqual(made.data.assignHomework.userErrors, []);
  });

  assert.deepEqual(requests, ["POST by hash: 200", "POST by hash: 200"]);
});

test("Apollo Client, trusted: a subscription of graphql-codegen goes by its id over the socket", async () => {
  const { data } = await whileAssigning(firstValueFrom(asApollo.client.subscribe({ query: CHANGES_TYPED })));

  assert.equal(data.assignmentChanged.assignment.name, "Evening routine");
});
