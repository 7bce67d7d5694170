// The operations of the page; graphql-codegen generates their types.

import { graphql } from "../made/typescript/index.ts";

export const DRAFT = graphql(`
  fragment Draft on AnswerSet { id revision answers { questionId answer } }
`);

export const ROW = graphql(`
  fragment Row on Assignment {
    id name status endDate feedbackStatus
    draft { ...Draft }
    feedbacks { id text }
  }
`);

export const ASSIGNMENTS = graphql(`
  query Assignments($after: String) {
    assignments(orderBy: DUE_SOONEST, first: 10, after: $after) {
      totalCount
      edges { node { ...Row } }
      pageInfo { hasNextPage endCursor }
    }
  }
`);

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
    saveAnswers(input: $input) {
      assignment { ...Row }
      draft { ...Draft }
      userErrors { code field }
    }
  }
`);

export const CHANGES = graphql(`
  subscription AssignmentChanges($after: ID) {
    assignmentChanged(after: $after) { id what assignment { ...Row } }
  }
`);
