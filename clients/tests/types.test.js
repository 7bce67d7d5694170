// The TypeScript types that graphql-codegen makes of `schema.graphql`, by the configuration that docs/clients.md shows.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { buildClientSchema, buildSchema, findBreakingChanges, getIntrospectionQuery } from "graphql";
import { caregiver, graphql } from "../helpers/service.js";
import { graphqlRequest } from "../setups/graphql-request.ts";
import { HOMEWORK } from "../typescript/homework.ts";

const inClients = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

test("graphql-js: what the service tells of its schema is schema.graphql", async () => {
  const query = getIntrospectionQuery({ specifiedByUrl: true, inputValueDeprecation: true, oneOf: true });
  const told = buildClientSchema(await graphqlRequest(graphql, async () => caregiver).request(query));
  const written = buildSchema(await readFile(inClients("../schema.graphql"), "utf8"));

  assert.deepEqual(findBreakingChanges(told, written), []);
  assert.deepEqual(findBreakingChanges(written, told), []);
});

const tsc = (...args) => promisify(execFile)(process.execPath, [inClients("node_modules/typescript/bin/tsc"), ...args]);

test("TypeScript: the setups, the generated types and the React page are correct in strict mode", async () => {
  await assert.doesNotReject(tsc("--project", inClients(".")));
});

test("JavaScript: tsc writes the setups as modules that Node loads", async () => {
  const options = ["--ignoreConfig", "--noCheck", "--rewriteRelativeImportExtensions", "--target", "esnext"];
  const written = (path) => inClients(`made/setups/${path}`);

  await tsc(...options, "--outDir", written(""), inClients("setups/apollo.ts"), inClients("setups/relay.ts"));

  const [{ apollo }, { relay }] = await Promise.all([import(written("apollo.js")), import(written("relay.js"))]);
  assert.deepEqual([typeof apollo, typeof relay], ["function", "function"]);
});

test("TypeScript: what the service answers is of these types", async () => {
  const { assignments } = await graphqlRequest(graphql, async () => caregiver).request(HOMEWORK, { clientId: "2" });

  const [{ id, startDate, endDate, submitDate, draft, isTest, score }] = assignments.nodes;
  assert.deepEqual(
    [id, startDate, endDate].map((value) => typeof value),
    ["string", "string", "string"],
  );
  assert.match(startDate, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assert.deepEqual([submitDate, draft, isTest, score], [null, null, false, 0]);
});
