// The answers to one assignment, and the feedback on the newest attempt.

import { useMutation, useQuery } from "@apollo/client/react";
import { type FormEvent, useEffect } from "react";
import type { SubmissionQuery, UserErrorCode } from "../made/typescript/graphql.ts";
import { GIVE_FEEDBACK, SUBMISSION } from "./operations.ts";
import { unsaved } from "./unsaved.ts";

function textOf(code: UserErrorCode): string {
  if (code === "NOT_RUNNING") return "The session is closed.";
  if (code === "WRONG_STATE") return "The homework was reopened.";
  return "This could not be saved."; // also for codes of later versions
}

const focus = (heading: HTMLElement | null) => heading?.focus(); // once, because it is always the same function

export function Submission({ id }: { id: string }) {
  const { data, error, refetch } = useQuery(SUBMISSION, {
    variables: { id },
    fetchPolicy: "cache-and-network",
    errorPolicy: "all",
  });
  const assignment = data?.assignment;
  const isSubmitted = assignment?.status === "COMPLETE";
  const newest = isSubmitted ? assignment.answerSets.find(({ attempt }) => attempt === assignment.attempt) : undefined;
  const isOutdated = isSubmitted && !newest; // an event has the status and the attempt, but no answers
  useEffect(() => {
    if (isOutdated) void refetch();
  }, [isOutdated, refetch]);
  if (!assignment) {
    return error ? <p role="alert">This assignment cannot be loaded.</p> : <p role="status">Loading…</p>;
  }
  return (
    <article aria-labelledby="title">
      <h2 id="title" tabIndex={-1} ref={focus}>
        {assignment.name}
      </h2>
      <p>{assignment.client.name}</p>
      {!isSubmitted && <p>Not submitted yet.</p>}
      {isOutdated && !error && <p role="status">Loading…</p>}
      {isOutdated && error && (
        <p role="alert">
          The answers cannot be loaded. <button onClick={() => void refetch()}>Try again</button>
        </p>
      )}
      <dl>
        {newest?.answers.map(({ questionText, answer }) => (
          <div key={questionText}>
            <dt>{questionText}</dt>
            <dd>{answer}</dd>
          </div>
        ))}
      </dl>
      {newest && <FeedbackForm key={newest.id} answerSet={newest} />}
    </article>
  );
}

const texts = unsaved<string>(); // by answer set

interface Props {
  answerSet: NonNullable<SubmissionQuery["assignment"]>["answerSets"][number];
}

function FeedbackForm({ answerSet: { id, feedback } }: Props) {
  const [give, { data: given, error: failure, loading }] = useMutation(GIVE_FEEDBACK, { errorPolicy: "all" });
  const problem = given?.giveFeedback.userErrors[0];

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault(); // unlike `action`, keeps the text if it is rejected
    const text = String(new FormData(event.currentTarget).get("text"));
    const { data } = await give({ variables: { input: { answerSetId: id, text } } });
    if (data && !data.giveFeedback.userErrors.length && texts.get(id) === text) texts.set(id);
  }

  return (
    <form onSubmit={(event) => void submit(event)}>
      <label className="field">
        Feedback
        <textarea
          name="text"
          rows={4}
          required
          maxLength={10_000}
          defaultValue={texts.get(id) ?? feedback?.text}
          onChange={({ target }) => texts.set(id, target.value)}
        />
      </label>
      <button disabled={loading}>Give feedback</button>
      {problem && <p role="alert">Not saved. {textOf(problem.code)}</p>}
      {failure && <p role="alert">Not saved. Check the connection and try again.</p>}
      {given && !problem && <p role="status">Saved</p>}
    </form>
  );
}
