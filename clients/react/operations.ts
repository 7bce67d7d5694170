// The operations of the pages; graphql-codegen generates their types.

import { graphql } from "../made/typescript/index.ts";

export const VIEWER = graphql(`
  query Viewer {
    viewer { role }
  }
`);

export const DRAFT = graphql(`
  fragment Draft on AnswerSet { id revision answers { questionId answer } }
`);

export const ROW = graphql(`
  fragment Row on Assignment {
    id name status attempt endDate feedbackStatus
    client { id name }
    draft { ...Draft }
    feedbacks { id text }
  }
`);

export const ASSIGNMENTS = graphql(`
  query Assignments($orderBy: AssignmentOrder!, $first: Int = 10, $after: String) {
    viewer { lastEventId }
    assignments(orderBy: $orderBy, first: $first, after: $after) {
      totalCount
      nodes { ...Row }
      pageInfo { hasNextPage endCursor }
    }
  }
`);

export const CHANGES = graphql(`
  subscription AssignmentChanges($after: ID) {
    assignmentChanged(after: $after) { id what assignmentId assignment { ...Row } }
  }
`);

// --- of a client ---

export const ASSIGNMENT = graphql(`
  query Assignment($id: ID!) {
    assignment(id: $id) {
      ...Row
      book { id questions { id kind text options } }
    }
  }
`);

export const SAVE_DRAFT = graphql(`
  mutation SaveDraft($input: SaveAnswersInput!) {
    payload: saveAnswers(input: $input) {
      assignment { ...Row }
      draft { ...Draft }
      userErrors { code field }
    }
  }
`);

export const SUBMIT = graphql(`
  mutation Submit($input: SubmitAnswersInput!) {
    payload: submitAnswers(input: $input) {
      assignment { ...Row }
      draft { ...Draft }
      userErrors { code field }
    }
  }
`);

// --- of a caregiver ---

export const SUBMISSION = graphql(`
  query Submission($id: ID!) {
    assignment(id: $id) {
      ...Row
      answerSets { id attempt answers { questionText answer } feedback { id text } }
    }
  }
`);

export const CHOICES = graphql(`
  query Choices {
    sessions(timeState: RUNNING, first: 100) { nodes { id title client { id name } } }
    books(first: 100) { nodes { id name } }
  }
`);

export const ASSIGN = graphql(`
  mutation AssignBooks($input: AssignHomeworkInput!) {
    assignHomework(input: $input) {
      assignments { ...Row }
      userErrors { code field }
    }
  }
`);

export const GIVE_FEEDBACK = graphql(`
  mutation GiveFeedback($input: GiveFeedbackInput!) {
    giveFeedback(input: $input) {
      assignment { ...Row }
      feedback { id text answerSet { id feedback { id text } } }
      userErrors { code field }
    }
  }
`);
