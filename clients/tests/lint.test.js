// The contracts by the rules of graphql-eslint and Spectral.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
const clients = new URL("..", import.meta.url);
const bin = (path) => new URL(`node_modules/${path}`, clients).pathname;

for (const [name, command, file] of [
  ["graphql-eslint", [bin("eslint/bin/eslint.js"), "--config", "clients/eslint.config.js"], "schema.graphql"],
  [
    "Spectral",
    [bin("@stoplight/spectral-cli/dist/index.js"), "lint", "--ruleset", "clients/spectral.yaml", "--fail-severity", "hint"],
    "app/rest_compat/openapi.yaml",
  ],
]) {
  test(`${name}: ${file} has no findings`, async () => {
    await assert.doesNotReject(run(process.execPath, [...command, file], { cwd: new URL("..", clients) }));
  });
}
