'use strict'
// Peers: `node serve.js rest`, `node serve.js graphql`, or both in one process.
const app = require('fastify')({ logger: false })

const contracts = { rest: './fastify_rest', graphql: './mercurius' }
app.decorateRequest('user', null)
for (const name of process.argv.slice(2)) app.register(require(contracts[name]))
app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
