'use strict'
// Shared by the Node peers on both databases: token check, dates, pages.
const { createVerifier } = require('fast-jwt')

const SIZE = 20
const verify = createVerifier({ key: process.env.BENCH_JWT_SECRET, algorithms: ['HS256'], cache: process.env.BENCH_TOKEN_CACHE === '1' })

/** Authorization header -> {id, role}; throws when the token is missing, invalid or of another role. */
function user (header) {
  if (!header || header.slice(0, 7).toLowerCase() !== 'bearer ') throw new Error('unauthorized')
  const claims = verify(header.slice(7))
  return { id: Number(claims.sub), role: claims.role }
}

const date = s => s === null ? null : `${s.slice(0, 4)}/${s.slice(5, 7)}/${s.slice(8, 16)}`

function envelope (content, total, page) {
  const pages = Math.ceil(total / SIZE)
  return { content, first: page === 0, last: page >= pages - 1, totalElements: total, totalPages: pages,
    numberOfElements: content.length, size: SIZE, number: page, sort: null }
}
const NO_STATS = { assignmentCount: 0, completedAssignmentCount: 0, pendingAssignmentCount: 0, assignmentId: null,
  assignmentName: null, bookId: null, lastAssignmentScore: null }
const NONE = []

const byKey = (rows, key) => new Map(rows.map(r => [r[key], r]))
function groups (rows, key) {
  const m = new Map()
  for (const r of rows) { const g = m.get(r[key]); if (g) g.push(r); else m.set(r[key], [r]) }
  return m
}

module.exports = { SIZE, user, date, envelope, NO_STATS, NONE, byKey, groups }
