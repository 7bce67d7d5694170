// PostgreSQL through jackc/pgx: a pool of connections with prepared statements and binary values. The statements of main.go are
// translated; the few that gain from it are written anew: a page and its total travel together, homework is one statement.
package main

import (
	"context"
	"database/sql/driver"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v4"
)

type postgres struct{ *pgx.Conn }

const (
	connections = 10
	assign      = `WITH made AS (
  INSERT INTO assignment (session_id, book_id, caregiver_id, client_id, name, time_state,
    assign_date, start_date, end_date, status, feedback_status, score)
  SELECT s.id, b.id, s.caregiver_id, s.client_id, b.name, 'RUNNING', $4, $5, $6, 'PENDING', 'WAITING', 0
  FROM session s, unnest($3::int[]) WITH ORDINALITY AS wanted(id, place) JOIN book b ON b.id = wanted.id
  WHERE s.id = $1 AND s.caregiver_id = $2 AND s.running_status = 'RUNNING'
    AND NOT EXISTS (SELECT FROM unnest($3::int[]) AS missing(id) WHERE NOT EXISTS (SELECT FROM book WHERE book.id = missing.id))
  ORDER BY place RETURNING id),
reminded AS (INSERT INTO reminder (assignment_id, remind_at) SELECT made.id, at FROM made, unnest($7::timestamp[]) at)
SELECT id FROM made`
)

var (
	onPostgres = strings.HasPrefix(os.Getenv("BENCH_DB"), "postgresql:")
	background = context.Background()
	dialect    = strings.NewReplacer("replace(substr(", "(", ",1,16),'-','/')", ")", "IN (SELECT value FROM json_each(?))", "= ANY(?)",
		"sum(status='COMPLETE')", "count(*) FILTER (WHERE status='COMPLETE')")
	translated = map[string]string{} // filled by openPostgres, then only read
)

func openPostgres() {
	mark := regexp.MustCompile(`\?`)
	for _, query := range []string{sessionPage, sessionCount, sessionsByID, sessionStats, clientsByID, assignmentPage, assignmentCount,
		assignmentByID, answerSets, answers} {
		n := 0
		text := limitFirst(limitFirst(query, sessionsFrom, "session s"), assignmentsFrom, "assignment a")
		translated[query] = mark.ReplaceAllStringFunc(dialect.Replace(text), func(string) string { n++; return "$" + strconv.Itoa(n) })
	}
	readers = make(chan *conn, connections)
	writer = readers
	for i := 0; i < connections; i++ {
		c, err := pgx.Connect(background, os.Getenv("BENCH_DB"))
		check(err)
		readers <- &conn{&postgres{c}}
	}
}

// limitFirst takes the page before it joins: PostgreSQL would join all rows first.
func limitFirst(query, from, table string) string {
	page := strings.TrimPrefix(query, from)
	if page == query || !strings.Contains(page, "LIMIT") {
		return query
	}
	id := table[len(table)-1:] + ".id"
	return strings.Replace(from, "FROM "+table, "FROM (SELECT * FROM "+table+" "+page+") "+table[len(table)-1:], 1) + "ORDER BY " + id + " DESC"
}

func (c *postgres) each(query string, row func(v []driver.Value), args ...driver.Value) {
	rows, err := c.Query(background, translated[query], plain(args)...)
	check(err)
	read(rows, row)
}

func (c *postgres) page(query, count string, row func(v []driver.Value), args ...driver.Value) (total int32) {
	batch := &pgx.Batch{}
	batch.Queue(translated[query], plain(args)...)
	batch.Queue(translated[count], plain(args[:2])...)
	results := c.SendBatch(background, batch)
	defer results.Close()
	rows, err := results.Query()
	check(err)
	read(rows, row)
	check(results.QueryRow().Scan(&total))
	return total
}

func (c *postgres) assign(caregiver int32, h *homework, now, start, end time.Time, reminders []time.Time) (made []int32, err error) {
	rows, err := c.Query(background, assign, h.SessionID, caregiver, h.BookIDs, now, start, end, reminders)
	check(err)
	read(rows, func(v []driver.Value) { made = append(made, i32(v[0])) })
	if made == nil {
		return nil, errInformation
	}
	return made, nil
}

func read(rows pgx.Rows, row func(v []driver.Value)) {
	defer rows.Close()
	var buffer []driver.Value
	for rows.Next() {
		values, err := rows.Values()
		check(err)
		buffer = buffer[:0]
		for _, v := range values {
			buffer = append(buffer, v)
		}
		row(buffer)
	}
	check(rows.Err())
}

func plain(args []driver.Value) []any {
	list := make([]any, len(args))
	for i, v := range args {
		list[i] = v
	}
	return list
}
