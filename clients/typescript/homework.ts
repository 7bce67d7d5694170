// Operations of an app in TypeScript; their types are made of the schema.

import { graphql } from "../made/typescript/index.ts";

export const HOMEWORK = graphql(`
  query HomeworkOf($clientId: ID, $since: DateTime) {
    assignments(clientId: $clientId, submittedSince: $since, first: 2) {
      totalCount
      nodes {
        id
        name
        status
        isTest
        score
        startDate
        endDate
        submitDate
        draft {
          id
        }
        client {
          progress {
            completion {
              week
            }
          }
        }
      }
    }
  }
`);

export const ASSIGN = graphql(`
  mutation AssignTyped($input: AssignHomeworkInput!) {
    assignHomework(input: $input) {
      assignments {
        id
      }
      userErrors {
        code
        field
        message
      }
    }
  }
`);

export const CHANGES = graphql(`
  subscription ChangesTyped($after: ID) {
    assignmentChanged(after: $after) {
      id
      what
      assignment {
        name
      }
    }
  }
`);
