// Apollo Client with a generated manifest, against a service that takes nothing that is not in it.

import { CombinedGraphQLErrors, gql } from "@apollo/client";
import { generatePersistedQueryIdsFromManifest } from "@apollo/persisted-query-lists";
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { firstValueFrom } from "rxjs";
import { caregiver, graphql, homework, whileAssigning } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import manifest from "../made/apollo-manifest.json" with { type: "json" };
import { apollo } from "../setups/apollo.ts";
import { ASSIGN, CHANGES, SESSION } from "./apollo-operations.js";

const ids = generatePersistedQueryIdsFromManifest({ loadManifest: async () => manifest });
const { client, close } = apollo(graphql, async () => caregiver, ids);
after(close);

test("Apollo Client, trusted: a query goes by its id in the manifest from the first time on", async () => {
  const requests = await sent(async () => {
    const { data } = await client.query({ query: SESSION, variables: { id: "1" } });
    assert.equal(data.session.title, "Sleeping through the night");
  });

  assert.deepEqual(requests, ["POST by hash: 200"]);
});

test("Apollo Client, trusted: a mutation goes by its id", async () => {
  const requests = await sent(async () => {
    const { data } = await client.mutate({ mutation: ASSIGN, variables: { input: homework() } });
    assert.deepEqual(data.assignHomework.userErrors, []);
  });

  assert.deepEqual(requests, ["POST by hash: 200"]);
});

test("Apollo Client, trusted: a subscription goes by its id over the socket", async () => {
  const { data } = await whileAssigning(firstValueFrom(client.subscribe({ query: CHANGES })));

  assert.equal(data.assignmentChanged.what, "ASSIGNED");
});

test("Apollo Client, trusted: a document that is not in the manifest is refused with its code", async () => {
  const other = apollo(graphql, async () => caregiver);

  const asked = other.client.query({
    query: gql`
      query Others {
        viewer {
          role
        }
      }
    `,
  });

  await assert.rejects(asked, (error) => {
    assert.ok(CombinedGraphQLErrors.is(error));
    assert.deepEqual(
      error.errors.map(({ extensions }) => extensions.code),
      ["DOCUMENT_NOT_TRUSTED"],
    );
    return true;
  });
  other.close();
});
