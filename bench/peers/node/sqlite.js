'use strict'
// The Node peers' reads and writes on SQLite: prepared statements, row mapping, homework transaction.
const Database = require('better-sqlite3')
const { SIZE, date, envelope, NO_STATS, NONE, byKey, groups } = require('./common')

const db = new Database(process.env.BENCH_DB)
db.pragma('journal_mode = WAL')
db.pragma('synchronous = FULL') // better-sqlite3 defaults to NORMAL in WAL; a commit must be durable
db.pragma('foreign_keys = ON')
db.pragma('mmap_size = 268435456')

const sessionCols = `s.id, s.title, s.description, s.caregiver_id AS caregiverId, g.name AS caregiverName,
  g.position AS caregiverPosition, s.client_id AS clientId, c.oppt_id AS clientOpptId, c.name AS clientName,
  s.create_date AS createDate, s.start_date AS startDate, s.chat_id AS chatId, s.is_closed AS isClosed,
  s.running_status AS runningStatus`
const sessionFrom = 'FROM session s JOIN caregiver g ON g.id = s.caregiver_id JOIN client c ON c.id = s.client_id'
const statsSql = `WITH st AS (
    SELECT session_id, count(*) AS n, sum(status = 'COMPLETE') AS done, max(id) AS last_id,
           max(CASE WHEN status = 'COMPLETE' THEN id END) AS scored_id
    FROM assignment WHERE session_id IN (SELECT value FROM json_each(?)) GROUP BY session_id)
  SELECT st.session_id AS sessionId, st.n AS assignmentCount, st.done AS completedAssignmentCount,
         st.n - st.done AS pendingAssignmentCount, a.id AS assignmentId, a.name AS assignmentName,
         a.book_id AS bookId, b.score AS lastAssignmentScore
  FROM st JOIN assignment a ON a.id = st.last_id LEFT JOIN assignment b ON b.id = st.scored_id`
const assignmentCols = `a.id, a.book_id AS bookId, a.name, s.title AS sessionTitle, a.session_id AS sessionId,
  b.module_id AS moduleId, m.name AS moduleName, a.caregiver_id AS caregiverId, g.name AS caregiverName,
  a.client_id AS clientId, c.name AS clientName, a.assign_date AS assignDate, a.submit_date AS submitDate,
  a.feedback_status AS feedbackStatus, a.feedback_submit_date AS feedbackSubmitDate, a.start_date AS startDate,
  a.status, b.is_test AS isTest, a.score`
const assignmentFrom = `FROM assignment a JOIN session s ON s.id = a.session_id JOIN book b ON b.id = a.book_id
  JOIN module m ON m.id = b.module_id JOIN caregiver g ON g.id = a.caregiver_id JOIN client c ON c.id = a.client_id`

const q = {
  sessionCount: db.prepare('SELECT count(*) FROM session WHERE client_id = ? AND running_status = ?').pluck(),
  sessions: db.prepare(`SELECT ${sessionCols} ${sessionFrom} WHERE s.client_id = ? AND s.running_status = ?
    ORDER BY s.id DESC LIMIT ${SIZE} OFFSET ?`),
  sessionsById: db.prepare(`SELECT ${sessionCols} ${sessionFrom} WHERE s.id IN (SELECT value FROM json_each(?))`),
  stats: db.prepare(statsSql),
  clientsById: db.prepare('SELECT id, name, oppt_id AS opptId FROM client WHERE id IN (SELECT value FROM json_each(?))'),
  assignmentCount: db.prepare('SELECT count(*) FROM assignment WHERE caregiver_id = ? AND time_state = ?').pluck(),
  assignments: db.prepare(`SELECT ${assignmentCols} ${assignmentFrom} WHERE a.caregiver_id = ? AND a.time_state = ?
    ORDER BY a.id DESC LIMIT ${SIZE} OFFSET ?`),
  assignment: db.prepare(`SELECT ${assignmentCols} ${assignmentFrom} WHERE a.id = ? AND a.caregiver_id = ?`),
  answerSets: db.prepare(`SELECT id, assignment_id AS assignmentId, save_type AS saveType, submit_date AS submitDate
    FROM answer_set WHERE assignment_id IN (SELECT value FROM json_each(?)) ORDER BY id`),
  answers: db.prepare(`SELECT answer_set_id AS setId, question_text AS questionText, answer
    FROM answer WHERE answer_set_id IN (SELECT value FROM json_each(?)) ORDER BY answer_set_id, position`),
  activeSession: db.prepare(`SELECT id, client_id AS clientId FROM session
    WHERE id = ? AND caregiver_id = ? AND running_status = 'RUNNING'`),
  books: db.prepare('SELECT id, name FROM book WHERE id IN (SELECT value FROM json_each(?))'),
  addAssignment: db.prepare(`INSERT INTO assignment (session_id, book_id, caregiver_id, client_id, name, time_state,
    assign_date, start_date, end_date, status, feedback_status, score)
    VALUES (?, ?, ?, ?, ?, 'RUNNING', ?, ?, ?, 'PENDING', 'WAITING', 0)`),
  addReminder: db.prepare('INSERT INTO reminder (assignment_id, remind_at) VALUES (?, ?)'),
  saveFirst: db.prepare(`INSERT INTO draft (assignment_id, revision, answers)
    SELECT id, 1, ? FROM assignment WHERE id = ? AND client_id = ? AND status = 'PENDING' ON CONFLICT DO NOTHING RETURNING revision`).pluck(),
  save: db.prepare(`UPDATE draft SET revision = revision + 1, answers = ? WHERE assignment_id = ? AND revision = ?
    AND EXISTS (SELECT 1 FROM assignment WHERE id = assignment_id AND client_id = ? AND status = 'PENDING') RETURNING revision`).pluck(),
  complete: db.prepare(`UPDATE assignment SET status = 'COMPLETE', submit_date = ?
    WHERE id = ? AND client_id = ? AND status = 'PENDING'`),
  dropDraft: db.prepare('DELETE FROM draft WHERE assignment_id = ?'),
  addSet: db.prepare("INSERT INTO answer_set (assignment_id, save_type, submit_date) VALUES (?, 'FINAL', ?)"),
  addAnswer: db.prepare('INSERT INTO answer (answer_set_id, position, question_text, answer) VALUES (?, ?, ?, ?)')
}

const ids = a => JSON.stringify(a)
function sessionRow (r) {
  r.createDate = date(r.createDate); r.startDate = date(r.startDate); r.isClosed = r.isClosed === 1
  return r
}
function assignmentRow (r) {
  r.assignDate = date(r.assignDate); r.submitDate = date(r.submitDate); r.startDate = date(r.startDate)
  r.feedbackSubmitDate = date(r.feedbackSubmitDate); r.isTest = r.isTest === 1
  return r
}
function withAnswers (items) {
  const sets = api.answerSets(items.map(a => a.id))
  const flat = sets.flat()
  const answers = api.answers(flat.map(s => s.id))
  flat.forEach((s, i) => {
    for (const a of answers[i]) { a.metadata = null; a.highlights = NONE }
    s.answers = answers[i]; s.metadata = null
  })
  items.forEach((a, i) => { a.answers = sets[i]; a.drafts = NONE; a.autoSaveAnswers = NONE; a.feedbacks = NONE })
}

const api = {
  sessionPage (clientId, state, page = 0) {
    const total = q.sessionCount.get(clientId, state)
    return envelope(q.sessions.all(clientId, state, page * SIZE).map(sessionRow), total, page)
  },
  assignmentPage (caregiverId, state, page = 0) {
    const total = q.assignmentCount.get(caregiverId, state)
    return envelope(q.assignments.all(caregiverId, state, page * SIZE).map(assignmentRow), total, page)
  },
  assignment (id, caregiverId) { const r = q.assignment.get(id, caregiverId); return r ? assignmentRow(r) : null },
  // whole legacy responses
  sessionsWithStats (clientId, state) {
    const p = api.sessionPage(clientId, state)
    const stats = api.stats(p.content.map(s => s.id))
    p.content.forEach((s, i) => { Object.assign(s, stats[i]); s.documents = NONE; s.assignments = NONE; s.feedbacks = NONE })
    return p
  },
  assignmentsWithAnswers (caregiverId, state) {
    const p = api.assignmentPage(caregiverId, state)
    withAnswers(p.content)
    return p
  },
  assignmentWithAnswers (id, caregiverId) {
    const a = api.assignment(id, caregiverId)
    if (a) withAnswers([a])
    return a
  },
  // batch reads: list of keys -> list of values in the same order
  stats (keys) { const m = byKey(q.stats.all(ids(keys)), 'sessionId'); return keys.map(k => m.get(k) ?? NO_STATS) },
  sessions (keys) { const m = byKey(q.sessionsById.all(ids(keys)).map(sessionRow), 'id'); return keys.map(k => m.get(k)) },
  clients (keys) { const m = byKey(q.clientsById.all(ids(keys)), 'id'); return keys.map(k => m.get(k)) },
  answerSets (keys) {
    const rows = q.answerSets.all(ids(keys))
    for (const r of rows) r.submitDate = date(r.submitDate)
    const m = groups(rows, 'assignmentId')
    return keys.map(k => m.get(k) ?? [])
  },
  answers (keys) { const m = groups(q.answers.all(ids(keys)), 'setId'); return keys.map(k => m.get(k) ?? []) },
  /** Returns the new assignment ids, or null when the request lacks information or the session is not active. */
  assignHomework: db.transaction((caregiverId, b) => {
    const books = byKey(q.books.all(ids(b.bookIds)), 'id')
    const session = q.activeSession.get(b.sessionId, caregiverId)
    if (!session || !b.bookIds.length || b.bookIds.some(i => !books.has(i))) return null
    const at = (d, t) => `${d.replaceAll('/', '-')} ${t}:00.000000`
    const now = new Date().toISOString().slice(0, 16).replace('T', ' ') + ':00.000000'
    return b.bookIds.map(bookId => {
      const id = Number(q.addAssignment.run(session.id, bookId, caregiverId, session.clientId, books.get(bookId).name, now,
        at(b.startDate, b.startTime), at(b.endDate, b.endTime)).lastInsertRowid)
      for (const r of b.remindDates) q.addReminder.run(id, at(r.date, r.time))
      return id
    })
  }).immediate,
  /** Returns the new revision, or undefined if the draft has another one or the assignment is not pending. */
  saveAnswers (clientId, { assignmentId, revision, answers }) {
    const document = JSON.stringify(answers)
    return revision ? q.save.get(document, assignmentId, revision, clientId) : q.saveFirst.get(document, assignmentId, clientId)
  },
  /** Returns the id of the answer set, or undefined if the assignment is not pending. */
  submitAnswers: db.transaction((clientId, { assignmentId, answers }) => {
    const now = new Date().toISOString().slice(0, 19).replace('T', ' ') + '.000000'
    if (!q.complete.run(now, assignmentId, clientId).changes) return undefined
    q.dropDraft.run(assignmentId)
    const id = Number(q.addSet.run(assignmentId, now).lastInsertRowid)
    answers.forEach((a, i) => q.addAnswer.run(id, i + 1, a.questionText, a.answer))
    return id
  }).immediate
}
module.exports = api
