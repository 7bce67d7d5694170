// Nothing is missed when a connection is renewed, set up as docs/clients.md shows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { requestSubscription } from "relay-runtime";
import { Heard } from "../helpers/heard.js";
import { assign, caregiver, endingSoon, graphql, pause, restart, whileAssigning } from "../helpers/service.js";
import CHANGES_OF_RELAY from "../made/relay/homeworkChangesSubscription.graphql.js";
import { apollo } from "../setups/apollo.ts";
import { overEvents } from "../setups/graphql-sse.ts";
import { overSocket } from "../setups/graphql-ws.ts";
import { listen } from "../setups/listen.ts";
import { relay } from "../setups/relay.ts";
import { resuming } from "../setups/resuming.ts";
import { urql } from "../setups/urql.ts";
import { CHANGES as CHANGES_TYPED } from "../typescript/homework.ts";
import { CHANGES, HOMEWORK } from "./apollo-operations.js";

// Of a token. Behind PgBouncer the first event takes up to five seconds.
const SECONDS = process.env.TEST_DATABASE_URL ? 10 : 4;

/** A way to listen: it tells of each change, and answers what ends it. */
const ways = {
  "Apollo Client": (token, tell) => {
    const { client, close } = apollo(graphql, token);
    client.subscribe({ query: CHANGES }).subscribe(({ data }) => tell(data.assignmentChanged));
    return close;
  },
  urql: (token, tell) => {
    const { client, close } = urql(graphql, token);
    client.subscription(CHANGES_TYPED, {}).subscribe(({ data }) => tell(data.assignmentChanged));
    return close;
  },
  Relay: (token, tell) => {
    const { environment, close } = relay(graphql, token);
    const onNext = ({ assignmentChanged }) => tell(assignmentChanged);
    requestSubscription(environment, { subscription: CHANGES_OF_RELAY, variables: {}, onNext });
    return close;
  },
  "graphql-ws": (token, tell) => {
    const client = overSocket(graphql, token);
    listen(client, tell);
    return () => client.dispose();
  },
  "graphql-sse": (token, tell) => listen(overEvents(graphql, token), tell),
};

/** Two books are assigned while nobody listens: when a token is asked for the second time. */
function assigningBeforeTheNext(first, isBack = async () => {}) {
  let asked = 0;
  return async () => {
    asked += 1;
    if (asked === 2) {
      await isBack();
      await assign([4]);
      await assign([1]);
    }
    return asked === 1 ? first : caregiver;
  };
}

/** What is told until both are: each event once, and both in their order. */
async function bothAreTold(heard) {
  const told = [];
  while (told.at(-1)?.assignment.name !== "Sleep diary") told.push(await heard.next());
  assert.equal(new Set(told.map(({ id }) => id)).size, told.length);
  const names = told.map(({ assignment }) => assignment.name).filter((name) => name !== "Evening routine");
  assert.deepEqual(names, ["Three good things", "Sleep diary"]);
}

for (const [name, way] of Object.entries(ways)) {
  test(`${name}: what happened while the service restarted is told when it is back`, async () => {
    const heard = new Heard();
    let back;
    const token = assigningBeforeTheNext(caregiver, () => back);
    const close = way(token, heard.tell);
    await whileAssigning(heard.next());

    back = restart();

    await bothAreTold(heard);
    await close();
  });
}

for (const name of ["Apollo Client", "graphql-sse"]) {
  test(`${name}: what happened between a token that ended and the next is told`, async () => {
    const heard = new Heard();
    const close = ways[name](assigningBeforeTheNext(await endingSoon(SECONDS)), heard.tell);
    await whileAssigning(heard.next());

    await bothAreTold(heard);
    await close();
  });
}

test("graphql-ws: a subscription that exceeds a limit begins when it no longer does", async () => {
  const heard = new Heard();
  const client = overSocket(graphql, async () => caregiver);
  const none = { next: () => {}, error: assert.fail, complete: () => {} };
  const query = "subscription { assignmentChanged { id } }";
  const others = Array.from({ length: 100 }, () => client.subscribe({ query }, none)); // as many as a websocket may have
  const rejected = new Promise((tell) => client.on("message", ({ type }) => type === "error" && tell()));
  const stop = listen(client, heard.tell, assert.fail);
  await rejected;

  others.pop()();

  await whileAssigning(heard.next());
  stop();
  await client.dispose();
});

for (const name of ["unsubscribe", "dispose"]) {
  test(`graphql-sse: ${name} ends a stream whose token was renewed, also before its next event`, async () => {
    const first = await endingSoon(SECONDS);
    let [asked, completed] = [0, 0];
    let renew;
    const renewed = new Promise((resolve) => (renew = resolve));
    const client = overEvents(graphql, async () => {
      if (++asked === 2) renew();
      return asked === 1 ? first : caregiver;
    });
    const sink = { next: assert.fail, error: assert.fail, complete: () => completed++ };
    const query = "subscription { assignmentChanged { id } }";
    const unsubscribe = resuming(client).subscribe({ query }, sink);
    await renewed;

    (name === "dispose" ? client.dispose : unsubscribe)();
    await pause(500);

    assert.deepEqual([asked, completed], [2, 1]);
  });
}

for (const [name, over] of Object.entries({ "graphql-ws": overSocket, "graphql-sse": overEvents })) {
  test(`${name}: the delays between attempts to connect grow to half a minute and differ`, async (t) => {
    const delays = [];
    const real = globalThis.setTimeout;
    const tried = new Promise((resolve) =>
      t.mock.method(globalThis, "setTimeout", (run, delay, ...values) => {
        if (delay < 100) return real(run, delay, ...values);
        delays.push(delay);
        return delays.length < 40 ? real(run, 0) : resolve();
      }),
    );
    const client = over("http://127.0.0.1:1/graphql", async () => caregiver);
    client.subscribe({ query: "{ viewer { role } }" }, { next: assert.fail, error: () => {}, complete: () => {} });
    await tried;
    void client.dispose();

    assert.ok(Math.max(...delays) > 15_000 && Math.max(...delays) <= 30_000, delays);
    assert.ok(new Set(delays).size > 15, delays); // also those of other timers
  });
}

test("Apollo Client: the socket says when a connection is renewed, so that what is shown can be asked for again", async () => {
  const heard = new Heard();
  const { client, socket, close } = apollo(graphql, async () => caregiver);
  client.subscribe({ query: CHANGES }).subscribe(({ data }) => heard.tell(data));
  await whileAssigning(heard.next());
  const list = client.watchQuery({ query: HOMEWORK, variables: { timeState: "RUNNING" } });
  const before = (await list.refetch()).data.assignments.totalCount;
  const shown = new Promise((tell) =>
    list.subscribe(({ data }) => data?.assignments.totalCount > before && tell(data.assignments.totalCount)),
  );
  socket.on("connected", (socket, payload, isRetry) => isRetry && client.refetchQueries({ include: "active" }));

  await assign([4]);
  await restart();

  assert.equal(await shown, before + 1);
  await close();
});
