// GraphQL over HTTP, as the audits of npm `graphql-http` read it: each audit is a sentence of an older draft.

import { serverAudits } from "graphql-http";
import assert from "node:assert/strict";
import { test } from "node:test";
import { caregiver, graphql } from "../helpers/service.js";

const asCaregiver = (url, request) =>
  fetch(url, { ...request, headers: { ...request?.headers, authorization: `bearer ${caregiver}` } });

const audits = serverAudits({ url: graphql, fetchFn: asCaregiver });

/** These want a 400 with application/graphql-response+json, which is a 422 in the edition of September 2026. */
const CONTRADICTED = ["423L", "86EE"];

for (const { id, name, fn } of audits.filter(({ id }) => !CONTRADICTED.includes(id))) {
  test(`${id} ${name}`, async () => {
    const { status, reason } = await fn();
    if (status !== "ok") throw new Error(`${status}: ${reason}`);
  });
}

for (const { id, name, fn } of audits.filter(({ id }) => CONTRADICTED.includes(id))) {
  test(`not ${id} ${name}: it is a 422`, async () => {
    const { reason, response } = await fn();
    assert.deepEqual([reason, response.status], ["Response status code is not 400", 422]);
  });
}

test("GraphQL over HTTP: these were 61 audits", () => assert.equal(audits.length, 61));
