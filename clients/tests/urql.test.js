// urql, set up as docs/clients.md shows.

import { gql } from "@urql/core";
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { caregiver, graphql, homework, whileAssigning } from "../helpers/service.js";
import { sent } from "../helpers/wire.js";
import { urql } from "../setups/urql.ts";

const { client, close } = urql(graphql, async () => caregiver);
after(close);

const SESSION = gql`
  query Session($id: ID!) {
    session(id: $id) {
      id
      title
    }
  }
`;
const ASSIGN = gql`
  mutation Assign($input: AssignHomeworkInput!) {
    assignHomework(input: $input) {
      assignments {
        name
        status
      }
      userErrors {
        code
        field
      }
    }
  }
`;
const CHANGES = gql`
  subscription {
    assignmentChanged {
      what
      assignment {
        name
      }
    }
  }
`;

const codes = ({ error }) => error.graphQLErrors.map(({ extensions }) => extensions.code);

test("urql: a query that is new goes by its hash, then with its text, and from then on by its hash", async () => {
  const ask = () => client.query(SESSION, { id: "2" }, { requestPolicy: "network-only" }).toPromise();

  const first = await sent(ask);
  const second = await sent(ask);

  assert.deepEqual(first, ["POST by hash: 422", "POST by text and hash: 200"]);
  assert.deepEqual(second, ["POST by hash: 200"]);
  assert.equal((await ask()).data.session.title, "After the move");
});

test("urql: a mutation answers what was made", async () => {
  const { data, error } = await client.mutation(ASSIGN, { input: homework() }).toPromise();

  assert.equal(error, undefined);
  assert.deepEqual(data.assignHomework.userErrors, []);
  assert.deepEqual(
    data.assignHomework.assignments.map(({ name, status }) => [name, status]),
    [["Evening routine", "PENDING"]],
  );
});

test("urql: a subscription tells of homework that is assigned, by graphql-ws", async () => {
  const told = new Promise((tell) => {
    const { unsubscribe } = client.subscription(CHANGES, {}).subscribe((result) => (unsubscribe(), tell(result)));
  });

  const { data } = await whileAssigning(told);

  assert.equal(data.assignmentChanged.what, "ASSIGNED");
});

test("urql: what is not there is null, and an error with its code", async () => {
  const answer = await client.query(SESSION, { id: "999" }).toPromise();

  assert.deepEqual(answer.data, { session: null });
  assert.deepEqual(codes(answer), ["NOT_FOUND"]);
});

test("urql: who is not signed in hears it as an error with its code and a 401", async () => {
  const stranger = urql(graphql, async () => "nobody");

  const answer = await stranger.client.query(SESSION, { id: "2" }).toPromise();

  assert.deepEqual(codes(answer), ["UNAUTHENTICATED"]);
  assert.equal(answer.error.response.status, 401);
  stranger.close();
});
