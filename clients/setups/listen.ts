import { resuming, type Sink, type Subscriber } from "./resuming.ts";

const query = `subscription ($after: ID) {
  assignmentChanged(after: $after) { id what assignment { name } }
}`;

export interface Change {
  id: string;
  what: string;
  assignment: { name: string } | null;
}

/** Calls `notify` with each event from now on, or since the event `after`, and `fail` with errors. */
export function listen(
  client: Subscriber,
  notify: (change: Change) => void,
  fail: (error: unknown) => void = console.error,
  after: string | null = null,
): () => void {
  const next: Sink["next"] = ({ data, errors }) => (data ? notify(data["assignmentChanged"] as Change) : fail(errors));
  return resuming(client).subscribe({ query, variables: { after } }, { next, error: fail, complete: () => {} });
}
