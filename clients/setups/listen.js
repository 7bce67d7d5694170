import { resuming } from "./resuming.js";

const query = `subscription ($after: ID) {
  assignmentChanged(after: $after) { id what assignment { name } }
}`;

/** Calls `notify` with each event from now on, or since the event `after`. */
export function listen(client, notify, after = null) {
  const next = ({ data }) => notify(data.assignmentChanged);
  return resuming(client).subscribe({ query, variables: { after } }, { next, error: notify, complete: () => {} });
}
