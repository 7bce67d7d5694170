const query = `subscription ($after: ID) {
  assignmentChanged(after: $after) { id what assignment { name } }
}`;

/** Tells what happens to assignments; what happened while nobody was connected, when the client is back. */
export function listen(client, tell) {
  const request = { query, variables: { after: null } }; // read again for every connection
  const next = ({ data }) => {
    request.variables.after = data.assignmentChanged.id;
    tell(data.assignmentChanged);
  };
  return client.subscribe(request, { next, error: tell, complete: () => {} });
}
