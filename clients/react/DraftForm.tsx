// Saves a draft or submits it. If another window saved it first, the person sees both texts and chooses.

import { useMutation } from "@apollo/client/react";
import type { AssignmentQuery, DraftFragment, UserErrorCode } from "../made/typescript/graphql.ts";
import { Field } from "./Field.tsx";
import { SAVE_DRAFT, SUBMIT } from "./operations.ts";
import { unsaved } from "./unsaved.ts";

type Answers = Record<string, string>; // by question id

/** What the person typed, the revision that it is based on, and the idempotency key of its requests. */
interface Edit {
  answers: Answers;
  revision: number;
  key: string;
  isSubmitting?: boolean;
}

const edits = unsaved<Edit>(); // by assignment

const edited = (answers: Answers, revision = 0): Edit => ({ answers, revision, key: crypto.randomUUID() });

function answersOf(draft: DraftFragment | null): Answers {
  return Object.fromEntries(draft?.answers.map(({ questionId, answer }) => [questionId ?? "", answer]) ?? []);
}

function textOf(code: UserErrorCode): string {
  if (code === "INCOMPLETE") return "This question must be answered.";
  if (code === "UNREADABLE") return "This answer has the wrong format.";
  if (code === "WRONG_STATE" || code === "NOT_RUNNING") return "This homework cannot be answered now.";
  return "This could not be saved."; // also for codes of later versions
}

interface Props {
  assignment: Shown;
  reload: () => void;
}

type Shown = NonNullable<AssignmentQuery["assignment"]>;

export function DraftForm({ assignment: { id: assignmentId, book, draft: stored }, reload }: Props) {
  const edit = edits.use(assignmentId); // without it, the form shows the stored draft, which events update
  const [save, saved] = useMutation(SAVE_DRAFT, { errorPolicy: "all" });
  const [submit, submitted] = useMutation(SUBMIT, { errorPolicy: "all" });
  const { data, error, loading } = submitted.called ? submitted : saved;
  const answers = edit?.answers ?? answersOf(stored);
  const result = data?.payload;
  const isConflict = result?.userErrors.some(({ code }) => code === "DRAFT_CONFLICT");
  const theirs = result?.draft ?? null; // null after a submission that was reopened
  const problems = isConflict ? [] : (result?.userErrors ?? []);

  const setEdit = (latest?: Edit) => edits.set(assignmentId, latest);

  async function send(isFinal: boolean, sent = edit ?? edited(answers, stored?.revision)) {
    reset();
    setEdit({ ...sent, isSubmitting: isFinal });
    const input = {
      assignmentId,
      answers: Object.entries(sent.answers).map(([questionId, answer]) => ({ questionId, answer })),
      revision: sent.revision,
    };
    // If no response arrives, the next attempt has the same key: the service executes it once.
    const context = { headers: { "Idempotency-Key": `${isFinal ? "submit" : "save"}-${sent.key}` } };
    const { data } = await (isFinal ? submit : save)({ variables: { input }, context });
    const latest = edits.get(assignmentId);
    if (!data || data.payload.userErrors.length) return setEdit(latest && { ...latest, isSubmitting: false });
    const revision = data.payload.draft?.revision; // also the base of what was typed during the save
    setEdit(latest && latest.key !== sent.key ? edited(latest.answers, revision) : undefined);
  }

  function reset() {
    saved.reset();
    submitted.reset();
  }

  function takeTheirs() {
    setEdit(undefined);
    reset();
    reload();
  }

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send(false);
      }}
    >
      {book.questions.map((question) => (
        <Field
          key={question.id}
          question={question}
          value={answers[question.id] ?? ""}
          problem={problems.filter(({ field }) => field?.includes(question.id)).map(({ code }) => textOf(code))[0]}
          onChange={(value) => setEdit(edited({ ...answers, [question.id]: value }, (edit ?? stored)?.revision))}
        />
      ))}
      {isConflict ? (
        <section role="alert">
          <h3>{theirs ? "Another window saved this draft" : "The saved draft no longer exists"}</h3>
          <Differences questions={book.questions} mine={answers} theirs={answersOf(theirs)} />
          <button type="button" onClick={() => void send(false, edited(answers, theirs?.revision))}>
            Save mine
          </button>
          <button type="button" onClick={takeTheirs}>
            Use the other one
          </button>
        </section>
      ) : (
        <p>
          <button disabled={loading}>Save draft</button>{" "}
          <button type="button" disabled={loading} onClick={() => void send(true)}>
            Submit
          </button>
        </p>
      )}
      {problems[0] && <p role="alert">Not saved. {textOf(problems[0].code)}</p>}
      {error && <p role="alert">Not saved. Check the connection and try again.</p>}
      <p role="status">{loading ? "Saving…" : edit ? "Not saved yet" : result ? "Saved" : ""}</p>
    </form>
  );
}

/** What was typed here after another window has submitted the homework. */
export function Unsent({ assignment: { id, book } }: { assignment: Shown }) {
  const edit = edits.use(id);
  if (!edit || edit.isSubmitting) return null;
  return (
    <section role="alert">
      <h3>This was typed here and not sent</h3>
      <dl>
        {book.questions.map((question) => (
          <div key={question.id}>
            <dt>{question.text}</dt>
            <dd>{edit.answers[question.id] || "(empty)"}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => edits.set(id)}>
        Discard it
      </button>
    </section>
  );
}

function Differences(props: { questions: { id: string; text: string }[]; mine: Answers; theirs: Answers }) {
  return props.questions.map(({ id, text }) => {
    const [mine = "", theirs = ""] = [props.mine[id], props.theirs[id]];
    if (mine === theirs) return null;
    return (
      <dl key={id}>
        <dt>{text}</dt>
        <dd>Mine: {mine || "(empty)"}</dd>
        <dd>The other one: {theirs || "(empty)"}</dd>
      </dl>
    );
  });
}
