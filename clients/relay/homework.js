// Operations of an app that uses Relay: a list that loads more, of items that can be looked up by their id.

import { graphql } from "react-relay";

export const HOMEWORK = graphql`
  query homeworkQuery($count: Int!, $timeState: TimeState!) {
    ...homework_list @arguments(count: $count, timeState: $timeState)
  }
`;

export const LIST = graphql`
  fragment homework_list on Query
  @argumentDefinitions(count: { type: "Int!" }, cursor: { type: "String" }, timeState: { type: "TimeState!" })
  @refetchable(queryName: "homeworkNextQuery") {
    assignments(first: $count, after: $cursor, timeState: $timeState) @connection(key: "homework_assignments") {
      totalCount
      edges {
        node {
          id
          name
        }
      }
    }
  }
`;

export const ONE = graphql`
  query homeworkOneQuery($id: ID!) {
    node(id: $id) {
      __typename
      ... on Assignment {
        name
        session {
          title
        }
      }
    }
  }
`;

export const CHANGES = graphql`
  subscription homeworkChangesSubscription($after: ID) {
    assignmentChanged(after: $after) {
      id
      what
      assignment {
        name
      }
    }
  }
`;

export const ROLE = graphql`
  query homeworkRoleQuery {
    viewer {
      role
    }
  }
`;

export const TIME_ZONE = graphql`
  query homeworkTimeZoneQuery {
    viewer {
      timeZone
    }
  }
`;
