// The page of a client: what is due first.

import type { RowFragment } from "../made/typescript/graphql.ts";
import { Assignment } from "./Assignment.tsx";
import { Assignments } from "./Assignments.tsx";

export function Homework() {
  return (
    <Assignments
      heading="Homework"
      orderBy="DUE_SOONEST"
      label={({ name }) => name}
      state={state}
      open={(id) => <Assignment key={id} id={id} />}
    />
  );
}

function state({ status, feedbackStatus, draft, endDate }: RowFragment): string {
  if (status === "COMPLETE") return feedbackStatus === "SUBMITTED" ? "Feedback received" : "Submitted";
  const due = endDate ? `due ${new Date(endDate).toLocaleDateString()}` : "no due date";
  return draft ? `Draft saved, ${due}` : `Not started, ${due}`;
}
