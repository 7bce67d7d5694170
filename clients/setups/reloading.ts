import type { ApolloClient, DocumentNode } from "@apollo/client";

const LARGEST_PAGE = 100;

interface Connection {
  edges?: unknown[];
  nodes?: unknown[];
  pageInfo: { hasNextPage: boolean; endCursor: string | null };
}

/**
 * Returns a function that fetches a list again, with as many rows as are loaded. If it is called while it runs, as by
 * several events, it runs once more. The query has `$first` and `$after`; `name` is the field of the list.
 */
export function reloading(client: ApolloClient, query: DocumentNode, name: string, variables = {}) {
  let isRunning = false;
  let isOutdated = false;

  async function reload() {
    const list = client.readQuery<Record<string, Connection>>({ query, variables })?.[name];
    let rows = (list?.edges ?? list?.nodes)?.length ?? 0;
    let page: Connection["pageInfo"] = { hasNextPage: true, endCursor: null };
    for (; rows > 0 && page.hasNextPage; rows -= LARGEST_PAGE) page = await fetchPage(rows, page.endCursor);
  }

  async function fetchPage(rows: number, after: string | null) {
    const { data } = await client.query<Record<string, Connection>>({
      query,
      variables: { ...variables, first: Math.min(rows, LARGEST_PAGE), after },
      fetchPolicy: "network-only",
    });
    return data![name]!.pageInfo;
  }

  return async () => {
    isOutdated = true;
    if (isRunning) return;
    isRunning = true;
    try {
      while (isOutdated) {
        isOutdated = false;
        await reload();
      }
    } finally {
      isRunning = false;
    }
  };
}
