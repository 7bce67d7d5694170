// Assigns books in a running session. If no response arrives, the next attempt has the same idempotency key.

import { useMutation, useQuery } from "@apollo/client/react";
import { type FormEvent, useState } from "react";
import type { UserErrorCode } from "../made/typescript/graphql.ts";
import { ASSIGN, CHOICES } from "./operations.ts";

const LATEST = "2999-12-31T23:59"; // of the service; without it, a year can have six digits
const DAY = 24 * 60 * 60 * 1000;

function textOf(code: UserErrorCode): string {
  if (code === "NOT_RUNNING") return "The session is not running.";
  if (code === "UNREADABLE") return "The end must not be before the start.";
  if (code === "INCOMPLETE") return "Choose at least one book.";
  return "This could not be assigned."; // also for codes of later versions
}

/** The value of a `datetime-local` input, in the time zone of the browser. */
function local(moment: number): string {
  return new Date(moment - new Date(moment).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function AssignForm() {
  const { data: choices, error: missing, refetch } = useQuery(CHOICES, { notifyOnNetworkStatusChange: true });
  const [key, setKey] = useState(() => crypto.randomUUID());
  const [assign, { data, error, loading }] = useMutation(ASSIGN, { errorPolicy: "all" });
  if (!choices && missing) {
    return (
      <p role="alert">
        The sessions and books cannot be loaded. <button onClick={() => void refetch()}>Try again</button>
      </p>
    );
  }
  if (!choices) return <p role="status">Loading…</p>;
  const problem = data?.assignHomework.userErrors[0];

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const moment = (name: string) => new Date(String(form.get(name))).toISOString();
    const input = {
      sessionId: String(form.get("session")),
      bookIds: form.getAll("book").map(String),
      startDate: moment("start"),
      endDate: moment("end"),
    };
    const { data } = await assign({ variables: { input }, context: { headers: { "Idempotency-Key": key } } });
    if (data) setKey(crypto.randomUUID());
  }

  return (
    <form onSubmit={(event) => void submit(event)} onChange={() => setKey(crypto.randomUUID())}>
      <label className="field">
        Session
        <select name="session">
          {choices.sessions.nodes.map(({ id, title, client }) => (
            <option key={id} value={id}>{`${client.name}: ${title}`}</option>
          ))}
        </select>
      </label>
      <fieldset>
        <legend>Books</legend>
        {choices.books.nodes.map(({ id, name }) => (
          <label key={id}>
            <input type="checkbox" name="book" value={id} /> {name}
          </label>
        ))}
      </fieldset>
      <label className="field">
        Start
        <input type="datetime-local" name="start" required max={LATEST} defaultValue={local(Date.now())} />
      </label>
      <label className="field">
        End
        <input type="datetime-local" name="end" required max={LATEST} defaultValue={local(Date.now() + 7 * DAY)} />
      </label>
      <button disabled={loading}>Assign</button>
      {problem && <p role="alert">Not assigned. {textOf(problem.code)}</p>}
      {error && <p role="alert">Not assigned. Check the connection and try again.</p>}
      {data && !problem && <p role="status">Assigned</p>}
    </form>
  );
}
