import type { ApolloClient, DocumentNode } from "@apollo/client";

const LARGEST_PAGE = 100;

interface Connection {
  edges?: unknown[];
  nodes?: unknown[];
  pageInfo: { hasNextPage: boolean; endCursor: string | null };
}

type Data = Record<string, Connection>;

/**
 * Returns a function to call for each event. It fetches a list again, with as many rows as are loaded, and then replaces it
 * as a whole. If it is called while it runs, it runs once more. A page that `fetchMore` loads meanwhile is fetched too.
 * With `isInPlace`, for an event that moves no row, it only repeats what runs, whose rows may be older than the event.
 * The query has `$first` and `$after`; `name` is the field of the list.
 */
export function reloading(client: ApolloClient, query: DocumentNode, name: string, variables = {}) {
  let isRunning = false;
  let isOutdated = false;

  async function reload() {
    let data: Data | null = null;
    let list: Connection | undefined;
    for (let shown = loaded(); shown && isShorter(list, shown); shown = loaded()) {
      // A list that ends with its first page gets a whole page, and may become longer.
      const rows = list || shown.pageInfo.hasNextPage ? length(shown) - length(list) : undefined;
      data = await fetchPage(rows, list?.pageInfo.endCursor);
      list = joined(list, data[name]!);
    }
    if (data) client.writeQuery<Data>({ query, variables, data: { ...data, [name]: list! } });
  }

  const loaded = () => client.readQuery<Data>({ query, variables })?.[name];

  async function fetchPage(rows: number | undefined, after: string | null = null) {
    const page = { ...variables, ...(rows && { first: Math.min(rows, LARGEST_PAGE) }), after };
    return (await client.query<Data>({ query, variables: page, fetchPolicy: "no-cache" })).data!;
  }

  return async (isInPlace = false) => {
    isOutdated = true;
    if (isRunning || isInPlace) return;
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

/** Whether a list that is fetched again has fewer rows than are loaded, and there are more. */
function isShorter(list: Connection | undefined, loaded: Connection) {
  return !list || (list.pageInfo.hasNextPage && length(list) < length(loaded));
}

const length = (list?: Connection) => (list?.edges ?? list?.nodes)?.length ?? 0;

function joined(list: Connection | undefined, page: Connection): Connection {
  if (!list) return page;
  const { hasNextPage, endCursor } = page.pageInfo;
  return {
    ...page,
    ...(list.edges && { edges: [...list.edges, ...page.edges!] }),
    ...(list.nodes && { nodes: [...list.nodes, ...page.nodes!] }),
    pageInfo: { ...list.pageInfo, hasNextPage, endCursor },
  };
}
