// GraphQL over HTTP, as the audits of npm `graphql-http` read it: each audit is a sentence of the specification.

import { serverAudits } from "graphql-http";
import assert from "node:assert/strict";
import { test } from "node:test";
import { caregiver, graphql } from "../helpers/service.js";

const asCaregiver = (url, request) =>
  fetch(url, { ...request, headers: { ...request?.headers, authorization: `bearer ${caregiver}` } });

const audits = serverAudits({ url: graphql, fetchFn: asCaregiver });

for (const { id, name, fn } of audits) {
  test(`${id} ${name}`, async () => {
    const { status, reason } = await fn();
    if (status !== "ok") throw new Error(`${status}: ${reason}`);
  });
}

test("GraphQL over HTTP: these were 61 audits", () => assert.equal(audits.length, 61));
