// One assignment: its feedback, and the draft until it is submitted.

import { useQuery } from "@apollo/client/react";
import { DraftForm, Unsent } from "./DraftForm.tsx";
import { ASSIGNMENT } from "./operations.ts";

const focus = (heading: HTMLElement | null) => heading?.focus(); // once, because it is always the same function

export function Assignment({ id }: { id: string }) {
  const { data, error, refetch } = useQuery(ASSIGNMENT, {
    variables: { id },
    fetchPolicy: "cache-and-network",
    errorPolicy: "all",
  });
  const assignment = data?.assignment;
  if (!assignment) {
    return error ? <p role="alert">This assignment cannot be loaded.</p> : <p role="status">Loading…</p>;
  }
  return (
    <article aria-labelledby="title">
      <h2 id="title" tabIndex={-1} ref={focus}>
        {assignment.name}
      </h2>
      <div aria-live="polite">
        {assignment.status === "COMPLETE" && <p>Submitted</p>}
        {assignment.feedbacks.map(({ id, text }) => (
          <blockquote key={id}>{text}</blockquote>
        ))}
      </div>
      {assignment.status === "COMPLETE" && <Unsent assignment={assignment} />}
      {assignment.status === "PENDING" && <DraftForm assignment={assignment} reload={() => void refetch()} />}
    </article>
  );
}
