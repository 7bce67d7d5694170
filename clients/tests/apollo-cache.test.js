// The cache of Apollo Client, set up as docs/clients.md shows.

import { gql } from "@apollo/client";
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { firstValueFrom } from "rxjs";
import { assign, caregiver, graphql, homework, whileAssigning } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import { apollo } from "../setups/apollo.ts";
import { reloading } from "../setups/reloading.ts";

const { client, close } = apollo(graphql, async () => caregiver);
after(close);

const listOf = (selection) => gql`
  query List($after: String) {
    assignments(timeState: RUNNING, first: 1, after: $after) {
      totalCount
      ${selection}
      pageInfo { hasNextPage endCursor }
    }
  }
`;
const NODES = listOf("nodes { id name }");
const EDGES = listOf("edges { node { id name } }");
const BOTH = listOf("nodes { id name } edges { cursor node { id } }");

const byNodes = ({ nodes }) => nodes.map(({ name }) => name);
const byEdges = ({ edges }) => edges.map(({ node }) => node.name);
const ALL = ["Three good things", "Evening routine", "Mood check", "Sleep diary"];

for (const [form, query, names] of [
  ["nodes", NODES, byNodes],
  ["edges", EDGES, byEdges],
  ["both", BOTH, byNodes],
]) {
  test(`Apollo Client, by ${form}: fetchMore adds each page to the list`, async () => {
    await client.clearStore();
    const list = client.watchQuery({ query });
    const shown = list.subscribe(() => {});
    let page = (await list.refetch()).data.assignments;
    assert.deepEqual(names(page), ALL.slice(0, 1));

    while (page.pageInfo.hasNextPage) {
      page = (await list.fetchMore({ variables: { after: page.pageInfo.endCursor } })).data.assignments;
    }

    const all = client.readQuery({ query }).assignments;
    assert.deepEqual(names(all), ALL);
    assert.equal((all.edges ?? ALL).length, 4);
    shown.unsubscribe();
  });
}

test("Apollo Client: a list by edges and a list by nodes show each other's pages", async () => {
  await client.clearStore();
  const { data } = await client.query({ query: NODES });

  await client.query({
    query: EDGES,
    variables: { after: data.assignments.pageInfo.endCursor },
    fetchPolicy: "network-only",
  });

  assert.deepEqual(byNodes(client.readQuery({ query: NODES }).assignments), ALL.slice(0, 2));
  assert.deepEqual(byEdges(client.readQuery({ query: EDGES }).assignments), ALL.slice(0, 2));
});

test("Apollo Client: a list that is fetched again begins with its first page", async () => {
  await client.clearStore();
  const { data } = await client.query({ query: NODES });
  const variables = { after: data.assignments.pageInfo.endCursor };
  await client.query({ query: NODES, variables, fetchPolicy: "network-only" });
  assert.equal(client.readQuery({ query: NODES }).assignments.nodes.length, 2);

  await client.query({ query: NODES, fetchPolicy: "network-only" });

  assert.deepEqual(byNodes(client.readQuery({ query: NODES }).assignments), ALL.slice(0, 1));
});

const LIST = gql`
  query ($first: Int = 1, $after: String) {
    assignments(timeState: RUNNING, first: $first, after: $after) {
      nodes { id name }
      edges { node { id } }
      pageInfo { hasNextPage endCursor }
    }
  }
`;

/** A list, the lengths in which it is shown, and what loads its next page. */
async function watched(use) {
  await client.clearStore();
  const list = client.watchQuery({ query: LIST });
  const lengths = [];
  const shown = list.subscribe(({ data }) => data?.assignments && lengths.push(data.assignments.nodes.length));
  await list.refetch();
  const more = () =>
    list.fetchMore({ variables: { after: client.readQuery({ query: LIST }).assignments.pageInfo.endCursor } });
  await use({ lengths, more, reload: reloading(client, LIST, "assignments") });
  shown.unsubscribe();
}

test("Apollo Client: what fetches a list again keeps the loaded pages, and runs once more for what comes meanwhile", async () => {
  await watched(async ({ lengths, more, reload }) => {
    await more();

    const requests = await sent(() => Promise.all([reload(), reload(), reload()]));

    assert.deepEqual(requests, ["POST by hash: 200", "POST by hash: 200"]);
    assert.deepEqual(byNodes(client.readQuery({ query: LIST }).assignments), ALL.slice(0, 2));
    assert.deepEqual(lengths, lengths.toSorted()); // never shorter in between
  });
});

test("Apollo Client: an event that moves no row repeats what fetches a list again, and begins nothing", async () => {
  await watched(async ({ reload }) => {
    assert.deepEqual(await sent(() => reload(true)), []);
    assert.equal((await sent(() => Promise.all([reload(), reload(true), reload(true)]))).length, 2);
  });
});

test("Apollo Client: a page that is loaded while the list is fetched again stays", async () => {
  await watched(async ({ lengths, more, reload }) => {
    for (const count of [2, 3, 4]) {
      await Promise.all([more(), reload(), reload()]);

      const { nodes, edges } = client.readQuery({ query: LIST }).assignments;
      assert.deepEqual(byNodes({ nodes }), ALL.slice(0, count));
      assert.equal(edges.length, count);
    }
    assert.deepEqual(lengths, lengths.toSorted());
  });
});

test("Apollo Client: a page behind a row that is no longer in the list is not added", async () => {
  await watched(async ({ more }) => {
    const { endCursor } = (await more()).data.assignments.pageInfo;
    await client.query({ query: LIST, fetchPolicy: "network-only" });

    await client.query({ query: LIST, variables: { after: endCursor }, fetchPolicy: "network-only" });

    assert.deepEqual(byNodes(client.readQuery({ query: LIST }).assignments), ALL.slice(0, 1));
  });
});

test("Apollo Client: a query and a subscription after its last event leave no gap", async () => {
  const start = gql`{ viewer { lastEventId } assignments(first: 1) { totalCount } }`;
  const changes = gql`subscription ($after: ID) { assignmentChanged(after: $after) { id what } }`;
  const { data } = await client.query({ query: start, fetchPolicy: "network-only" });
  await assign([4]);

  const variables = { after: data.viewer.lastEventId };
  const event = await firstValueFrom(client.subscribe({ query: changes, variables }));

  assert.equal(event.data.assignmentChanged.what, "ASSIGNED");
});

test("Apollo Client: pages by number are kept apart", async () => {
  const query = gql`
    query Page($offset: Int) {
      sessions(first: 1, offset: $offset) { nodes { id title } }
    }
  `;
  const titleAt = async (offset) =>
    (await client.query({ query, variables: { offset } })).data.sessions.nodes.map(({ title }) => title);

  assert.deepEqual(await titleAt(0), ["First steps"]);
  assert.deepEqual(await titleAt(1), ["Staying well"]);
  assert.deepEqual(await titleAt(0), ["First steps"]);
});

test("Apollo Client: a query of a total does not make the list empty", async () => {
  await client.query({ query: gql`{ books { totalCount } }` });
  const query = gql`{ books { nodes { id name } } }`;

  assert.equal(client.readQuery({ query }), null);
  assert.equal((await client.query({ query })).data.books.nodes.length, 4);
  assert.equal(client.readQuery({ query: gql`{ books { totalCount } }` }).books.totalCount, 4);
});

for (const [type, one, other] of [
  ["Viewer", "viewer { role }", "viewer { timeZone }"],
  ["Progress", "clients { nodes { id progress { assignmentCount } } }", "clients { nodes { id progress { lateAssignmentCount } } }"],
  ["Lateness", "assignment(id: 1) { id lateness { state } }", "assignment(id: 1) { id lateness { seconds } }"],
]) {
  test(`Apollo Client: queries of different fields of ${type} keep each other's`, async () => {
    const [first, second] = [one, other].map((fields) => ({ query: gql`{ ${fields} }` }));
    await client.query(first);
    await client.query(second);

    const requests = await sent(async () => Promise.all([client.query(first), client.query(second)]));

    assert.deepEqual(requests, []);
  });
}

test("Apollo Client: events are not kept", async () => {
  const query = gql`
    subscription ($after: ID) { assignmentChanged(after: $after) { id what assignment { id name } } }
  `;

  await whileAssigning(firstValueFrom(client.subscribe({ query })));

  const kinds = Object.keys(client.cache.extract()).map((key) => key.split(":")[0]);
  assert.ok(kinds.includes("Assignment"));
  assert.ok(!kinds.includes("AssignmentChange"));
});

test("Apollo Client: a list that is empty, or ends with its first page, gets new rows", async () => {
  await client.clearStore();
  const create = gql`mutation ($input: CreateSessionInput!) { createSession(input: $input) { sessions { id } } }`;
  const input = { clientId: "1", title: "New", startDate: new Date().toISOString() };
  const { sessions } = (await client.mutate({ mutation: create, variables: { input } })).data.createSession;
  const variables = { sessionId: sessions[0].id };
  const query = gql`
    query ($sessionId: ID!, $first: Int = 3, $after: String) {
      assignments(sessionId: $sessionId, first: $first, after: $after) {
        nodes { id }
        pageInfo { hasNextPage endCursor }
      }
    }
  `;
  const give = gql`mutation ($input: AssignHomeworkInput!) { assignHomework(input: $input) { userErrors { code } } }`;
  const reload = reloading(client, query, "assignments", variables);
  assert.deepEqual(await sent(reload), []); // it is not loaded
  const lengths = [(await client.query({ query, variables })).data.assignments.nodes.length];

  for (const bookIds of [["1"], ["2", "3"]]) {
    await client.mutate({ mutation: give, variables: { input: { ...homework(bookIds), ...variables } } });
    await reload();
    lengths.push(client.readQuery({ query, variables }).assignments.nodes.length);
  }

  assert.deepEqual(lengths, [0, 1, 3]);
});
