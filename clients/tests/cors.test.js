// A page of another site: browsers ask first whether it may send the headers that a client sends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { caregiver, graphql } from "../helpers/service.js";
import { headersSent } from "../helpers/wire.js";
import { apollo } from "../setups/apollo.ts";
import { graphqlRequest } from "../setups/graphql-request.ts";
import { overEvents } from "../setups/graphql-sse.ts";
import { urql } from "../setups/urql.ts";
import { SESSION } from "./apollo-operations.js";

const token = async () => caregiver;
const clients = {
  "Apollo Client": () => {
    const { client } = apollo(graphql, token);
    const context = { clientAwareness: { name: "practice", version: "1.0" }, headers: { "idempotency-key": "1" } };
    return client.query({ query: SESSION, variables: { id: "1" }, context });
  },
  urql: () => urql(graphql, token).client.query("{ viewer { role } }", {}).toPromise(),
  "graphql-request": () => graphqlRequest(graphql, token).request("{ viewer { role } }"),
  "graphql-sse": () => overEvents(graphql, token).iterate({ query: "{ viewer { role } }" }).next(),
};

for (const [name, ask] of Object.entries(clients)) {
  test(`CORS: a page of another site may send what ${name} sends`, async () => {
    const headers = await headersSent(ask);

    const preflight = await fetch(graphql, {
      method: "OPTIONS",
      headers: {
        origin: "https://app.example.test",
        "access-control-request-method": "POST",
        "access-control-request-headers": headers.join(","),
      },
    });

    const allowed = preflight.headers.get("access-control-allow-headers").split(", ");
    assert.deepEqual(
      headers.filter((each) => each !== "accept" && !allowed.includes(each)),
      [],
    );
  });
}
