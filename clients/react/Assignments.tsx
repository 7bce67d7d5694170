// The list of assignments and the open one. Events keep both up to date.

import { useApolloClient, useQuery, useSubscription } from "@apollo/client/react";
import { type ReactNode, useMemo, useState } from "react";
import type { AssignmentOrder, RowFragment } from "../made/typescript/graphql.ts";
import { reloading } from "../setups/reloading.ts";
import { ASSIGNMENTS, CHANGES } from "./operations.ts";

interface Props {
  heading: string;
  orderBy: AssignmentOrder;
  label: (row: RowFragment) => string;
  state: (row: RowFragment) => string;
  open: (id: string) => ReactNode;
  children?: ReactNode;
}

const STAYS = ["DRAFT_SAVED", "FEEDBACK_GIVEN", "REMINDERS_SET"]; // the assignment has the same place in the list

export function Assignments({ heading, orderBy, label, state, open, children }: Props) {
  const client = useApolloClient();
  const [openId, setOpenId] = useState<string>();
  const { data, error, fetchMore } = useQuery(ASSIGNMENTS, { variables: { orderBy } });
  const reload = useMemo(() => reloading(client, ASSIGNMENTS, "assignments", { orderBy }), [client, orderBy]);
  const [isStale, setStale] = useState(false);
  const [after, setAfter] = useState<string>(); // from the first response, which has the state until then
  if (!after && data?.viewer) setAfter(data.viewer.lastEventId);
  const events = useSubscription(CHANGES, {
    variables: { after: after ?? null },
    skip: !after,
    onData: ({ data: { data } }) => {
      const { what = "", assignmentId } = data?.assignmentChanged ?? {};
      if (what === "WITHDRAWN" && assignmentId === openId) setOpenId(undefined);
      // The cache has the new state of the assignment. Other changes move it: the loaded pages are fetched again.
      update(STAYS.includes(what));
    },
  });
  const update = (isInPlace = false) => void reload(isInPlace).then(() => setStale(false), () => setStale(true));
  if (!data) return error ? <p role="alert">The homework cannot be loaded.</p> : <p role="status">Loading…</p>;
  const { nodes, pageInfo, totalCount } = data.assignments;
  return (
    <main className="columns">
      <nav aria-labelledby="heading">
        <h1 id="heading">{heading}</h1>
        {children}
        {events.error && <p role="alert">Changes are no longer shown. Reload the page.</p>}
        {isStale && (
          <p role="alert">
            This list could not be updated. <button onClick={() => update()}>Try again</button>
          </p>
        )}
        <p role="status">{`${nodes.length} of ${totalCount}`}</p>
        <ul>
          {nodes.map((row) => (
            <li key={row.id}>
              <button aria-current={row.id === openId} onClick={() => setOpenId(row.id)}>
                {label(row)} <small>{state(row)}</small>
              </button>
            </li>
          ))}
        </ul>
        {pageInfo.hasNextPage && (
          <button onClick={() => void fetchMore({ variables: { after: pageInfo.endCursor } })}>Show more</button>
        )}
      </nav>
      {openId && open(openId)}
    </main>
  );
}
