// urql with Graphcache, set up as docs/clients.md shows.

import { gql } from "@urql/core";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { buildSchema, isObjectType } from "graphql";
import { Heard } from "../helpers/heard.js";
import { assign, caregiver, graphql } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import { graphcache } from "../setups/urql-graphcache.ts";
import { urql } from "../setups/urql.ts";

const warnings = [];
for (const level of ["warn", "error"]) console[level] = (...words) => warnings.push(words.join(" "));

const { client, close } = urql(graphql, async () => caregiver, undefined, graphcache);
after(close);

const ask = (query, variables = {}) => client.query(query, variables).toPromise();
const ALL = ["Three good things", "Evening routine", "Mood check", "Sleep diary"];

for (const [form, filter, selection, names] of [
  ["nodes", "timeState: RUNNING", "nodes { id name }", ({ nodes }) => nodes.map(({ name }) => name)],
  ["edges", "orderBy: NEWEST, timeState: RUNNING", "edges { node { id name } }", ({ edges }) => edges.map(({ node }) => node.name)],
]) {
  test(`urql with Graphcache, by ${form}: a query with the cursor adds the page to the list`, async () => {
    const query = gql`
      query List($after: String) {
        assignments(${filter}, first: 1, after: $after) {
          ${selection}
          pageInfo { hasNextPage endCursor }
        }
      }
    `;
    let page = (await ask(query)).data.assignments;
    assert.deepEqual(names(page), ALL.slice(0, 1));

    while (page.pageInfo.hasNextPage) page = (await ask(query, { after: page.pageInfo.endCursor })).data.assignments;

    assert.deepEqual(names(page), ALL);
  });
}

for (const [type, one, other] of [
  ["Viewer", "viewer { role }", "viewer { timeZone }"],
  ["Progress", "clients { nodes { id progress { assignmentCount } } }", "clients { nodes { id progress { lateAssignmentCount } } }"],
  ["Lateness", "assignment(id: 1) { id lateness { state } }", "assignment(id: 1) { id lateness { seconds } }"],
]) {
  test(`urql with Graphcache: queries of different fields of ${type} keep each other's`, async () => {
    const [first, second] = [one, other].map((fields) => gql`query { ${fields} }`);
    await ask(first);
    await ask(second);

    const requests = await sent(() => Promise.all([ask(first), ask(second)]));

    assert.deepEqual(requests, []);
  });
}

test("urql with Graphcache: an event changes the assignment that a list shows", async () => {
  const [{ id }] = (await ask(gql`query { assignments(status: PENDING) { nodes { id } } }`)).data.assignments.nodes;
  const list = gql`query { clients { nodes { id } } assignments(status: PENDING) { nodes { id endDate } } }`;
  const shown = new Heard();
  const { unsubscribe } = client.query(list, {}).subscribe(({ data }) => shown.tell(endOf(data)));
  const endOf = ({ assignments }) => assignments.nodes.find((one) => one.id === id).endDate;
  const before = await shown.next();
  const changes = gql`
    subscription { assignmentChanged { id what assignment { id endDate } } }
  `;
  const heard = new Promise((tell) => client.subscription(changes, {}).subscribe(tell));

  const extend = `mutation ($input: ExtendAssignmentInput!) { extendAssignment(input: $input) { userErrors { code } } }`;
  let days = 0;
  const repeated = setInterval(() => {
    const endDate = new Date(Date.parse(before) + ++days * 24 * 60 * 60 * 1000).toISOString();
    void fetch(graphql, {
      method: "POST",
      headers: { authorization: `bearer ${caregiver}`, "content-type": "application/json" },
      body: JSON.stringify({ query: extend, variables: { input: { assignmentId: id, endDate } } }),
    });
  }, 200);
  await heard;
  clearInterval(repeated);

  assert.notEqual(await shown.next(), before);
  unsubscribe();
});

for (const [form, selection, names] of [
  ["nodes", "nodes { id }", ({ nodes }) => nodes.map(({ id }) => id)],
  ["edges", "edges { node { id } }", ({ edges }) => edges.map(({ node }) => node.id)],
]) {
  test(`urql with Graphcache, by ${form}: no row is missing behind a page that is fetched again`, async () => {
    const query = gql`
      query List($after: String) {
        assignments(sessionId: 1, first: 1, after: $after) { ${selection} pageInfo { hasNextPage endCursor } }
      }
    `;
    const load = async (after) =>
      (await client.query(query, { after }, { requestPolicy: "network-only" }).toPromise()).data.assignments;
    const [first, second] = names(await load((await load()).pageInfo.endCursor));
    await assign([4]);

    const again = await load();
    const [added, ...others] = names(again);
    assert.deepEqual(others, []);

    const more = await load(again.pageInfo.endCursor);
    assert.deepEqual(names(more), [added, first, second]);
  });
}

test("urql with Graphcache: every type without an id has a key", async () => {
  const schema = buildSchema(await readFile(new URL("../../schema.graphql", import.meta.url), "utf8"));
  const roots = ["Query", "Mutation", "Subscription"];
  const bare = Object.values(schema.getTypeMap())
    .filter((type) => isObjectType(type) && !type.name.startsWith("__") && !type.getFields().id)
    .map(({ name }) => name)
    .filter((name) => !roots.includes(name) && !name.endsWith("Payload"));
  const written = await readFile(new URL("../setups/urql-graphcache.ts", import.meta.url), "utf8");
  const keys = [...written.matchAll(/^ {4}(\w+): embedded/gm)].map(([, name]) => name);

  assert.deepEqual(keys, [...bare, "AssignmentChange", "ReminderDue"].sort());
  assert.deepEqual(warnings, []);
});
