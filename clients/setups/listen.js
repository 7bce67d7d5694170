import { resuming } from "./resuming.js";

const query = `subscription ($after: ID) {
  assignmentChanged(after: $after) { id what assignment { name } }
}`;

/** Tells what happens to assignments from now on, or from the event `after` on; also what happened in between. */
export function listen(client, tell, after = null) {
  const next = ({ data }) => tell(data.assignmentChanged);
  return resuming(client).subscribe({ query, variables: { after } }, { next, error: tell, complete: () => {} });
}
