import { cacheExchange, type Resolver } from "@urql/exchange-graphcache";

const embedded = () => null; // belongs to its parent

/**
 * Joins the cached pages of a list: each begins at the `endCursor` of the previous one. If a page was fetched again and ends
 * elsewhere, the pages after it are left out, because rows between them may be missing.
 */
const list: Resolver = (_, { after, ...others }, cache, { parentKey, fieldName }) => {
  const pageAfter = (after: unknown) => {
    const args = after ? { ...others, after: String(after) } : others;
    return cache.resolve(parentKey, fieldName, Object.keys(args).length ? args : undefined) as string | undefined;
  };
  const end = (page: string) => cache.resolve(cache.resolve(page, "pageInfo") as string, "endCursor");
  const [own, pages] = [pageAfter(after), [] as string[]];
  for (let page = pageAfter(null); page; page = end(page) ? pageAfter(end(page)) : undefined) pages.push(page);
  if (!own || !pages.length) return own;
  const all = (rows: string, key: (row: string) => unknown) => {
    const found = pages.flatMap((page) => (cache.resolve(page, rows) as string[] | undefined) ?? []);
    return [...new Map(found.map((row) => [key(row), row])).values()]; // a row that moved may be in two pages
  };
  return {
    __typename: cache.resolve(own, "__typename") as string,
    edges: all("edges", (edge) => cache.resolve(edge, "node")),
    nodes: all("nodes", (node) => node),
    pageInfo: cache.resolve(pages.at(-1)!, "pageInfo"),
  };
};

/** Caches objects by id. A query with `after` returns all pages. Select `nodes` or `edges` of a list, always the same. */
export const graphcache = cacheExchange({
  keys: {
    Answer: embedded,
    AnswerSetConnection: embedded,
    AnswerSetEdge: embedded,
    AssignmentChange: embedded, // of an event, which is not looked up again
    AssignmentConnection: embedded,
    AssignmentEdge: embedded,
    AuditEventConnection: embedded,
    AuditEventEdge: embedded,
    BookConnection: embedded,
    BookEdge: embedded,
    ClientConnection: embedded,
    ClientEdge: embedded,
    CompletionPoint: embedded,
    Lateness: embedded,
    PageInfo: embedded,
    Progress: embedded,
    ReminderDue: embedded, // likewise
    ScorePoint: embedded,
    SessionConnection: embedded,
    SessionEdge: embedded,
    UserError: embedded,
    Viewer: embedded,
  },
  resolvers: {
    Query: { assignments: list, auditEvents: list, books: list, clients: list, sessions: list, submissions: list },
    Session: { assignments: list },
  },
});
