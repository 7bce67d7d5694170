'use strict'
// The Node peers' reads and writes on PostgreSQL: named prepared statements on a pool. A legacy response is one statement; GraphQL
// has one for each level, as its loaders ask.
const { Client, Pool, types } = require('pg')
const { SIZE, date, envelope, NO_STATS, NONE, byKey, groups } = require('./common')

types.setTypeParser(types.builtins.TIMESTAMP, text => text)
const connectionString = process.env.BENCH_DB
// A query has a connection of the pool to itself; with BENCH_PIPELINE=4 all share four, in pg's new pipeline mode.
const shared = Array.from({ length: Number(process.env.BENCH_PIPELINE ?? 0) }, () => new Client({ connectionString, pipeline: true }))
for (const client of shared) client.connect()
let turn = 0
const pool = shared.length
  ? { query: q => shared[turn = (turn + 1) % shared.length].query(q) }
  : new Pool({ connectionString, max: 10, idleTimeoutMillis: 0 })
const query = (name, text) => async (...values) => (await pool.query({ name, text, values })).rows

const sessionCols = `s.id, s.title, s.description, s.caregiver_id AS "caregiverId", g.name AS "caregiverName",
  g.position AS "caregiverPosition", s.client_id AS "clientId", c.oppt_id AS "clientOpptId", c.name AS "clientName",
  s.create_date AS "createDate", s.start_date AS "startDate", s.chat_id AS "chatId", s.is_closed AS "isClosed",
  s.running_status AS "runningStatus"`
const sessionPeople = 'JOIN caregiver g ON g.id = s.caregiver_id JOIN client c ON c.id = s.client_id'
const running = 'FROM session WHERE client_id = $1 AND running_status = $2'
const sessionPage = `(SELECT * ${running} ORDER BY id DESC LIMIT ${SIZE} OFFSET $3) s ${sessionPeople}`
const sessionTotal = `(SELECT count(*)::int ${running}) AS total`
const statCols = `st.n AS "assignmentCount", st.done AS "completedAssignmentCount", st.n - st.done AS "pendingAssignmentCount",
  l.id AS "assignmentId", l.name AS "assignmentName", l.book_id AS "bookId", f.score AS "lastAssignmentScore"`
const counts = `count(*)::int AS n, (count(*) FILTER (WHERE status = 'COMPLETE'))::int AS done, max(id) AS last_id,
  max(id) FILTER (WHERE status = 'COMPLETE') AS scored_id FROM assignment`
const statRows = 'LEFT JOIN assignment l ON l.id = st.last_id LEFT JOIN assignment f ON f.id = st.scored_id'

const assignmentCols = `a.id, a.book_id AS "bookId", a.name, s.title AS "sessionTitle", a.session_id AS "sessionId",
  b.module_id AS "moduleId", m.name AS "moduleName", a.caregiver_id AS "caregiverId", g.name AS "caregiverName",
  a.client_id AS "clientId", c.name AS "clientName", a.assign_date AS "assignDate", a.submit_date AS "submitDate",
  a.feedback_status AS "feedbackStatus", a.feedback_submit_date AS "feedbackSubmitDate", a.start_date AS "startDate",
  a.status, b.is_test AS "isTest", a.score`
const assignmentParts = `JOIN session s ON s.id = a.session_id JOIN book b ON b.id = a.book_id
  JOIN module m ON m.id = b.module_id JOIN caregiver g ON g.id = a.caregiver_id JOIN client c ON c.id = a.client_id`
const assigned = 'FROM assignment WHERE caregiver_id = $1 AND time_state = $2'
const assignmentPage = `(SELECT * ${assigned} ORDER BY id DESC LIMIT ${SIZE} OFFSET $3) a ${assignmentParts}`
const assignmentTotal = `(SELECT count(*)::int ${assigned}) AS total`
const answers = `(SELECT json_agg(json_build_object('id', t.id, 'saveType', t.save_type, 'assignmentId', t.assignment_id,
    'submitDate', t.submit_date, 'answers', (SELECT json_agg(json_build_array(question_text, answer) ORDER BY position)
      FROM answer WHERE answer_set_id = t.id)) ORDER BY t.id)
  FROM answer_set t WHERE t.assignment_id = a.id) AS answers`

const q = {
  sessions: query('sessions', `SELECT ${sessionCols}, ${sessionTotal} FROM ${sessionPage} ORDER BY s.id DESC`),
  sessionsWithStats: query('sessions-stats', `SELECT ${sessionCols}, ${sessionTotal}, ${statCols} FROM ${sessionPage}
    CROSS JOIN LATERAL (SELECT ${counts} WHERE session_id = s.id) st ${statRows} ORDER BY s.id DESC`),
  sessionsById: query('sessions-by-id', `SELECT ${sessionCols} FROM session s ${sessionPeople} WHERE s.id = ANY($1)`),
  stats: query('stats', `SELECT st.session_id AS "sessionId", ${statCols}
    FROM (SELECT session_id, ${counts} WHERE session_id = ANY($1) GROUP BY session_id) st ${statRows}`),
  clientsById: query('clients', 'SELECT id, name, oppt_id AS "opptId" FROM client WHERE id = ANY($1)'),
  assignments: query('assignments', `SELECT ${assignmentCols}, ${assignmentTotal} FROM ${assignmentPage} ORDER BY a.id DESC`),
  assignmentsWithAnswers: query('assignments-answers',
    `SELECT ${assignmentCols}, ${assignmentTotal}, ${answers} FROM ${assignmentPage} ORDER BY a.id DESC`),
  assignment: query('assignment',
    `SELECT ${assignmentCols} FROM assignment a ${assignmentParts} WHERE a.id = $1 AND a.caregiver_id = $2`),
  assignmentWithAnswers: query('assignment-answers',
    `SELECT ${assignmentCols}, ${answers} FROM assignment a ${assignmentParts} WHERE a.id = $1 AND a.caregiver_id = $2`),
  answerSets: query('answer-sets', `SELECT id, assignment_id AS "assignmentId", save_type AS "saveType", submit_date AS "submitDate"
    FROM answer_set WHERE assignment_id = ANY($1) ORDER BY id`),
  answers: query('answers', `SELECT answer_set_id AS "setId", question_text AS "questionText", answer
    FROM answer WHERE answer_set_id = ANY($1) ORDER BY answer_set_id, position`),
  // One statement is a transaction. It writes nothing unless the session is active and all books exist.
  assign: query('assign', `WITH made AS (
      INSERT INTO assignment (session_id, book_id, caregiver_id, client_id, name, time_state,
        assign_date, start_date, end_date, status, feedback_status, score)
      SELECT s.id, b.id, $2, s.client_id, b.name, 'RUNNING', $4::timestamp, $5::timestamp, $6::timestamp, 'PENDING', 'WAITING', 0
      FROM session s, unnest($3::int[]) WITH ORDINALITY AS wanted(id, place) JOIN book b ON b.id = wanted.id
      WHERE s.id = $1 AND s.caregiver_id = $2 AND s.running_status = 'RUNNING'
        AND NOT EXISTS (SELECT FROM unnest($3::int[]) AS missing(id) WHERE NOT EXISTS (SELECT FROM book WHERE book.id = missing.id))
      ORDER BY place RETURNING id),
    reminded AS (INSERT INTO reminder (assignment_id, remind_at) SELECT made.id, at FROM made, unnest($7::timestamp[]) at)
    SELECT id FROM made`),
  saveFirst: query('save-first', `INSERT INTO draft (assignment_id, revision, answers)
    SELECT id, 1, $3 FROM assignment WHERE id = $1 AND client_id = $2 AND status = 'PENDING'
    ON CONFLICT DO NOTHING RETURNING revision`),
  save: query('save', `UPDATE draft SET revision = revision + 1, answers = $3 FROM assignment a
    WHERE assignment_id = $1 AND revision = $4 AND a.id = $1 AND a.client_id = $2 AND a.status = 'PENDING' RETURNING revision`),
  submit: query('submit', `WITH done AS (UPDATE assignment SET status = 'COMPLETE', submit_date = $3::timestamp
      WHERE id = $1 AND client_id = $2 AND status = 'PENDING' RETURNING id),
    dropped AS (DELETE FROM draft USING done WHERE assignment_id = done.id),
    made AS (INSERT INTO answer_set (assignment_id, save_type, submit_date) SELECT id, 'FINAL', $3::timestamp FROM done RETURNING id),
    answered AS (INSERT INTO answer (answer_set_id, position, question_text, answer)
      SELECT made.id, place, question, given FROM made, unnest($4::text[], $5::text[]) WITH ORDINALITY AS t(question, given, place))
    SELECT id FROM made`)
}

function sessionRow (r) {
  r.createDate = date(r.createDate); r.startDate = date(r.startDate)
  return r
}
function assignmentRow (r) {
  r.assignDate = date(r.assignDate); r.submitDate = date(r.submitDate); r.startDate = date(r.startDate)
  r.feedbackSubmitDate = date(r.feedbackSubmitDate)
  return r
}
function withAnswers (a) {
  a.drafts = a.autoSaveAnswers = a.feedbacks = NONE
  a.answers ??= NONE
  for (const set of a.answers) {
    set.metadata = null
    set.submitDate = date(set.submitDate.replace('T', ' '))
    set.answers = set.answers.map(([questionText, answer]) => ({ questionText, answer, metadata: null, highlights: NONE }))
  }
  return assignmentRow(a)
}
// A page beyond the last has no row with the total and reports 0.
const pageOf = (rows, page) => envelope(rows, rows[0]?.total ?? 0, page)
const at = (d, t) => `${d.replaceAll('/', '-')} ${t}`

module.exports = {
  async sessionPage (clientId, state, page = 0) {
    return pageOf((await q.sessions(clientId, state, page * SIZE)).map(sessionRow), page)
  },
  async assignmentPage (caregiverId, state, page = 0) {
    return pageOf((await q.assignments(caregiverId, state, page * SIZE)).map(assignmentRow), page)
  },
  async assignment (id, caregiverId) { return (await q.assignment(id, caregiverId)).map(assignmentRow)[0] ?? null },
  // whole legacy responses
  async sessionsWithStats (clientId, state) {
    const rows = await q.sessionsWithStats(clientId, state, 0)
    for (const s of rows) { sessionRow(s); s.documents = s.assignments = s.feedbacks = NONE }
    return pageOf(rows, 0)
  },
  async assignmentsWithAnswers (caregiverId, state) {
    return pageOf((await q.assignmentsWithAnswers(caregiverId, state, 0)).map(withAnswers), 0)
  },
  async assignmentWithAnswers (id, caregiverId) {
    return (await q.assignmentWithAnswers(id, caregiverId)).map(withAnswers)[0] ?? null
  },
  // batch reads: list of keys -> list of values in the same order
  async stats (keys) { const m = byKey(await q.stats(keys), 'sessionId'); return keys.map(k => m.get(k) ?? NO_STATS) },
  async sessions (keys) { const m = byKey((await q.sessionsById(keys)).map(sessionRow), 'id'); return keys.map(k => m.get(k)) },
  async clients (keys) { const m = byKey(await q.clientsById(keys), 'id'); return keys.map(k => m.get(k)) },
  async answerSets (keys) {
    const rows = await q.answerSets(keys)
    for (const r of rows) r.submitDate = date(r.submitDate)
    const m = groups(rows, 'assignmentId')
    return keys.map(k => m.get(k) ?? [])
  },
  async answers (keys) { const m = groups(await q.answers(keys), 'setId'); return keys.map(k => m.get(k) ?? []) },
  /** Returns the new assignment ids, or null when the request lacks information or the session is not active. */
  async assignHomework (caregiverId, b) {
    const now = new Date().toISOString().slice(0, 16)
    const made = await q.assign(b.sessionId, caregiverId, b.bookIds, now, at(b.startDate, b.startTime), at(b.endDate, b.endTime),
      b.remindDates.map(r => at(r.date, r.time)))
    return made.length ? made.map(r => r.id) : null
  },
  /** Returns the new revision, or undefined if the draft has another one or the assignment is not pending. */
  async saveAnswers (clientId, { assignmentId, revision, answers }) {
    const given = [assignmentId, clientId, JSON.stringify(answers)]
    return (revision ? await q.save(...given, revision) : await q.saveFirst(...given))[0]?.revision
  },
  /** Returns the id of the answer set, or undefined if the assignment is not pending. */
  async submitAnswers (clientId, { assignmentId, answers }) {
    const now = new Date().toISOString().slice(0, 19)
    const given = [answers.map(a => a.questionText), answers.map(a => a.answer)]
    return (await q.submit(assignmentId, clientId, now, ...given))[0]?.id
  }
}
