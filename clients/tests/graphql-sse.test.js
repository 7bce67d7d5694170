// The client of npm `graphql-sse` in its mode of distinct connections, set up as docs/clients.md shows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Heard } from "../helpers/heard.js";
import { assign, caregiver, client as jonas, graphql, pause, whileAssigning } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import { overEvents } from "../setups/graphql-sse.ts";
import { listen } from "../setups/listen.ts";

test("graphql-sse: a query is answered by a stream of one event", async () => {
  const client = overEvents(graphql, async () => jonas);
  const answers = [];

  for await (const answer of client.iterate({ query: "{ viewer { role } }" })) answers.push(answer.data);

  assert.deepEqual(answers, [{ viewer: { role: "CLIENT" } }]);
});

test("graphql-sse: a subscription tells of homework that is assigned, also after a sign of life", async () => {
  const client = overEvents(graphql, async () => jonas);
  const heard = new Heard();
  const leave = listen(client, heard.tell);
  await whileAssigning(heard.next());

  await pause(13_000); // a sign of life comes after twelve seconds of silence
  await assign([4]);
  let change = await heard.next();
  while (change.assignment.name === "Evening routine") change = await heard.next(); // what was told before

  assert.equal(change.what, "ASSIGNED");
  assert.deepEqual(change.assignment, { name: "Three good things" });
  leave();
});

test("graphql-sse: a wrong token is refused with a 401, and the next one is let in", async () => {
  const tokens = ["nobody", caregiver];
  const answers = [];

  const requests = await sent(async () => {
    const client = overEvents(graphql, async () => tokens.shift());
    for await (const answer of client.iterate({ query: "{ viewer { role } }" })) answers.push(answer.data);
  });

  assert.deepEqual(requests, ["POST by text: 401", "POST by text: 200"]);
  assert.deepEqual(answers, [{ viewer: { role: "CAREGIVER" } }]);
});
