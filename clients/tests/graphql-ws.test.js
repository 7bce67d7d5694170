// The client of npm `graphql-ws`, set up as docs/clients.md shows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Heard } from "../helpers/heard.js";
import { assign, caregiver, client as jonas, graphql, restart, whileAssigning } from "../helpers/service.js";
import { overSocket } from "../setups/graphql-ws.ts";
import { listen } from "../setups/listen.ts";

test("graphql-ws: a query is answered over the socket", async () => {
  const client = overSocket(graphql, async () => jonas);

  for await (const answer of client.iterate({ query: "{ viewer { role client { name } } }" })) {
    assert.deepEqual(answer.data, { viewer: { role: "CLIENT", client: { name: "Jonas Berg" } } });
  }

  await client.dispose();
});

test("graphql-ws: the class of sockets can be given", async () => {
  const addresses = [];
  class Noted extends WebSocket {
    constructor(address, protocol) {
      super(address, protocol);
      addresses.push(address);
    }
  }
  const client = overSocket(graphql, async () => jonas, Noted);

  const { value } = await client.iterate({ query: "{ viewer { role } }" }).next();

  assert.deepEqual(value.data, { viewer: { role: "CLIENT" } });
  assert.deepEqual(addresses, [graphql.replace("http", "ws")]);
  await client.dispose();
});

test("graphql-ws: a subscription tells the client of homework that the caregiver assigns", async () => {
  const client = overSocket(graphql, async () => jonas);
  const heard = new Heard();
  listen(client, heard.tell);

  const change = await whileAssigning(heard.next());

  assert.equal(change.what, "ASSIGNED");
  assert.deepEqual(change.assignment, { name: "Evening routine" });
  await client.dispose();
});

test("graphql-ws: after a restart of the service it comes again, and misses nothing", async () => {
  const client = overSocket(graphql, async () => caregiver);
  const heard = new Heard();
  const closed = new Promise((resolve) => client.on("closed", resolve));
  listen(client, heard.tell);
  await whileAssigning(heard.next());

  await restart();
  await assign([4]);
  let change = await heard.next();
  while (change.assignment.name === "Evening routine") change = await heard.next(); // what was told before

  assert.equal((await closed).code, 1012);
  assert.equal(change.assignment.name, "Three good things");
  await client.dispose();
});

test("graphql-ws: a wrong token closes the connection with 4403, and another token opens the next", async () => {
  const tokens = ["invalid", caregiver];
  const client = overSocket(graphql, async () => tokens.shift());
  const closed = new Promise((resolve) => client.on("closed", resolve));
  const answers = [];

  for await (const answer of client.iterate({ query: "{ viewer { role } }" })) answers.push(answer.data);

  assert.equal((await closed).code, 4403);
  assert.deepEqual(answers, [{ viewer: { role: "CAREGIVER" } }]);
  await client.dispose();
});

test("graphql-ws: a socket is opened when its token is there, and a failure to get one is repeated", async () => {
  let opened = 0;
  class Counted extends WebSocket {
    constructor(address, protocol) {
      super(address, protocol);
      opened += 1;
    }
  }
  const before = [];
  const client = overSocket(
    graphql,
    async () => {
      before.push(opened);
      if (before.length === 1) throw new Error("no token yet");
      return jonas;
    },
    Counted,
  );

  const { value } = await client.iterate({ query: "{ viewer { role } }" }).next();

  assert.deepEqual(value.data, { viewer: { role: "CLIENT" } });
  assert.deepEqual(before, [0, 1]);
  await client.dispose();
});

test("graphql-ws: a closed client sends no token, whether a subscription waits or begins", async () => {
  const messages = [];
  class Noted extends WebSocket {
    send(message) {
      messages.push(JSON.parse(message).type);
      super.send(message);
    }
  }
  const client = overSocket(graphql, async () => "invalid", Noted);
  const ended = () =>
    new Promise((complete, error) => client.subscribe({ query: "{ viewer { role } }" }, { next: error, error, complete }));
  const rejected = new Promise((resolve) => client.on("closed", resolve));
  const waiting = ended();
  await rejected; // it connects again in a few seconds

  const closing = client.dispose();
  await Promise.all([waiting, closing]);
  await ended();

  assert.deepEqual(messages, ["connection_init"]);
});

test("graphql-ws: a connection that no longer answers is closed, and one that answers stays", async (t) => {
  let isSilent = false;
  class Silent extends WebSocket {
    send(message) {
      if (!isSilent) super.send(message);
    }
  }
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const client = overSocket(graphql, async () => jonas, Silent);
  const happened = (name) => new Promise((resolve) => client.on(name, (...values) => resolve(values)));
  const connected = happened("connected");
  client.subscribe({ query: "subscription { reminderDue { id } }" }, { next() {}, error() {}, complete() {} });
  await connected;

  const answered = happened("pong");
  t.mock.timers.tick(15_000);
  await answered;
  t.mock.timers.tick(5_000);
  isSilent = true;
  const closed = happened("closed");
  t.mock.timers.tick(10_000);
  t.mock.timers.tick(5_000);

  assert.equal((await closed)[0].code, 4499);
  await client.dispose();
});

test("graphql-ws: a wrong document is an error of its own, and the connection stays", async () => {
  const client = overSocket(graphql, async () => caregiver);
  const asked = client.iterate({ query: "subscription { nothing }" });

  await assert.rejects(asked.next(), (errors) => {
    assert.deepEqual(
      errors.map(({ extensions }) => extensions.code),
      ["GRAPHQL_VALIDATION_FAILED"],
    );
    return true;
  });
  const answer = await client.iterate({ query: "{ viewer { role } }" }).next();

  assert.deepEqual(answer.value.data, { viewer: { role: "CAREGIVER" } });
  await client.dispose();
});
