// The page of a caregiver: the newest homework of all clients, and a form that assigns more.

import type { RowFragment } from "../made/typescript/graphql.ts";
import { AssignForm } from "./AssignForm.tsx";
import { Assignments } from "./Assignments.tsx";
import { Submission } from "./Submission.tsx";

export function Caregiving() {
  return (
    <Assignments
      heading="Assigned homework"
      orderBy="NEWEST"
      label={({ name, client }) => `${name}, ${client.name}`}
      state={state}
      open={(id) => <Submission key={id} id={id} />}
    >
      <details>
        <summary>Assign homework</summary>
        <AssignForm />
      </details>
    </Assignments>
  );
}

function state({ status, feedbackStatus, endDate }: RowFragment): string {
  if (status === "COMPLETE") return feedbackStatus === "SUBMITTED" ? "Feedback given" : "Submitted";
  return endDate ? `Due ${new Date(endDate).toLocaleDateString()}` : "No due date";
}
