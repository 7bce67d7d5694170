// The list of assignments. Events keep it and the open assignment up to date.

import { useQuery, useSubscription } from "@apollo/client/react";
import { useState } from "react";
import type { RowFragment } from "../made/typescript/graphql.ts";
import { Assignment } from "./Assignment.tsx";
import { ASSIGNMENTS, CHANGES } from "./operations.ts";

export function Homework() {
  const [openId, setOpenId] = useState<string>();
  const { data, error, fetchMore } = useQuery(ASSIGNMENTS);
  const events = useSubscription(CHANGES, {
    onData: ({ client, data: { data } }) => {
      // The cache has the new state of the assignment. Other changes move it, and the list starts at its first page.
      const what = data?.assignmentChanged.what ?? "";
      if (!["DRAFT_SAVED", "FEEDBACK_GIVEN", "REMINDERS_SET"].includes(what)) {
        void client.refetchQueries({ include: [ASSIGNMENTS] });
      }
    },
  });
  if (!data) return error ? <p role="alert">The homework cannot be loaded.</p> : <p role="status">Loading…</p>;
  const { edges, pageInfo, totalCount } = data.assignments;
  return (
    <main className="columns">
      <nav aria-labelledby="homework">
        <h1 id="homework">Homework</h1>
        {events.error && <p role="alert">Changes are no longer shown. Reload the page.</p>}
        <p role="status">{`${edges.length} of ${totalCount}`}</p>
        <ul>
          {edges.map(({ node }) => (
            <li key={node.id}>
              <button aria-current={node.id === openId} onClick={() => setOpenId(node.id)}>
                {node.name} <small>{state(node)}</small>
              </button>
            </li>
          ))}
        </ul>
        {pageInfo.hasNextPage && (
          <button onClick={() => void fetchMore({ variables: { after: pageInfo.endCursor } })}>Show more</button>
        )}
      </nav>
      {openId && <Assignment key={openId} id={openId} />}
    </main>
  );
}

function state({ status, feedbackStatus, draft, endDate }: RowFragment): string {
  if (status === "COMPLETE") return feedbackStatus === "SUBMITTED" ? "Feedback received" : "Submitted";
  const due = endDate ? `due ${new Date(endDate).toLocaleDateString()}` : "no due date";
  return draft ? `Draft saved, ${due}` : `Not started, ${due}`;
}
