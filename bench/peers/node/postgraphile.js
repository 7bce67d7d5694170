'use strict'
// Peer: PostGraphile 5 on PostgreSQL. Its schema comes from the tables; the root fields below replace its own and read only rows of
// the token's person. It reads through plans, without a transaction or row security, which would cost it three more round trips.
const { createServer } = require('node:http')
const { postgraphile } = require('postgraphile')
const { PostGraphileAmberPreset } = require('postgraphile/presets/amber')
const { makePgService } = require('postgraphile/adaptors/pg')
const { grafserv } = require('postgraphile/grafserv/node')
const { connection, context } = require('postgraphile/grafast')
const { gql, extendSchema } = require('postgraphile/utils')
const { user } = require('./common')

const person = role => context().get(role) // null for the other role, which matches no row
const reads = extendSchema(({ pgResources: { session, assignment } }) => {
  const page = (resource, role, state) => (_, { $timeState }) => {
    const $rows = resource.find({ [`${role}_id`]: person(role), [state]: $timeState })
    $rows.orderBy({ attribute: 'id', direction: 'DESC' })
    return connection($rows)
  }
  return {
    typeDefs: gql`extend type Query {
      clientSessions(timeState: String!): SessionConnection
      caregiverAssignments(timeState: String!): AssignmentConnection
      assignment(id: Int!): Assignment
    }`,
    objects: {
      Query: {
        plans: {
          clientSessions: page(session, 'client', 'running_status'),
          caregiverAssignments: page(assignment, 'caregiver', 'time_state'),
          assignment: (_, { $id }) => assignment.find({ id: $id, caregiver_id: person('caregiver') }).single()
        }
      }
    }
  }
})

const api = postgraphile({
  extends: [PostGraphileAmberPreset],
  plugins: [reads],
  disablePlugins: ['PgAllRowsPlugin', 'PgRowByUniquePlugin', 'NodePlugin', 'PgMutationCreatePlugin', 'PgMutationUpdateDeletePlugin'],
  pgServices: [makePgService({ connectionString: process.env.BENCH_DB, poolConfig: { max: 10, idleTimeoutMillis: 0 } })],
  schema: { defaultBehavior: '+list' },
  grafast: { context: ({ node }) => ({ client: null, caregiver: null, [node.req.user.role]: node.req.user.id }) },
  grafserv: { graphiql: false }
})
const handler = api.createServ(grafserv).createHandler()
createServer((req, res) => {
  try { req.user = user(req.headers.authorization) } catch { return res.writeHead(401).end() }
  handler(req, res)
}).listen(Number(process.env.PORT), '127.0.0.1')
