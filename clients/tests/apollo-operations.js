// Operations of an app that uses Apollo Client; its manifest is made of this file.

import { gql } from "@apollo/client";

export const HOMEWORK = gql`
  query Homework($timeState: TimeState!, $after: String) {
    assignments(timeState: $timeState, first: 2, after: $after) {
      totalCount
      edges {
        node {
          id
          name
        }
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
`;

export const ASSIGN = gql`
  mutation Assign($input: AssignHomeworkInput!) {
    assignHomework(input: $input) {
      assignments {
        id
        name
        status
      }
      userErrors {
        code
        field
      }
    }
  }
`;

export const CHANGES = gql`
  subscription Changes($after: ID) {
    assignmentChanged(after: $after) {
      id
      what
      assignment {
        id
        name
      }
    }
  }
`;

export const SESSION = gql`
  query Session($id: ID!) {
    session(id: $id) {
      id
      title
    }
  }
`;

export const SESSIONS = gql`
  query Sessions($after: String) {
    sessions(first: 1, after: $after) {
      edges {
        node {
          id
        }
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
`;
