import { cacheExchange, type Resolver } from "@urql/exchange-graphcache";
import { relayPagination } from "@urql/exchange-graphcache/extras";

const embedded = () => null; // belongs to its parent
const pages = relayPagination(); // finds no list without arguments
const list: Resolver = (parent, args, cache, info) =>
  Object.keys(args).length ? pages(parent, args, cache, info) : cache.resolve(info.parentKey, info.fieldName);

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
