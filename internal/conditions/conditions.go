// Package conditions asks the questions of table conditions about jobs: as the role that owns them, in transactions that can only read, on
// a connection that does nothing else. docs/conditions.md says what a condition may do, and docs/security.md what it cannot.
package conditions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

// Longest is how long a question may take, about however many jobs.
const Longest = 2 * time.Second

// more is how much longer an answer is waited for than Postgres gives it.
const more = 2 * time.Second

// begin bounds what a question may take of Postgres beside its time. The text of a condition cannot change the timeout of the statement that it is in, nor
// lift the limit for temporary files, which its role may not set.
const begin = `BEGIN READ ONLY; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = 1000; SET LOCAL idle_in_transaction_session_timeout = 5000;
	SET LOCAL work_mem = '16MB'; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off;
	SELECT set_config('temp_file_limit', '65536', true) WHERE has_parameter_privilege('temp_file_limit', 'SET')`

// end leaves nothing behind: a rollback takes back what set_config has set and pg_notify would have said, but no lock of the session.
const end = `ROLLBACK; SELECT pg_advisory_unlock_all()`

// Error is a failure of the condition itself, in words for who wrote it. Other errors say that Postgres could not be asked.
type Error struct {
	Condition, Problem string
}

func (e *Error) Error() string { return fmt.Sprintf("condition `%s` %s", e.Condition, e.Problem) }

// Session is the connection on which one question after another is asked. It is not for several goroutines.
type Session struct {
	url, application string
	how              []postgres.Option
	conn             *pgx.Conn
}

// New makes a session, which connects when it is first used.
func New(url, application string, how ...postgres.Option) *Session {
	return &Session{url: url, application: application, how: how}
}

// Close closes the connection.
func (s *Session) Close(ctx context.Context) {
	if s.conn == nil {
		return
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.conn.Close(closing)
	s.conn = nil
}

// Ask asks a condition about jobs, by their configurations, in one statement. It returns a yes or a no for each, nil where there was neither; or an Error, which
// is some job's of them, or that of all together, where they took too long.
func (s *Session) Ask(ctx context.Context, name string, timeout time.Duration, configs []json.RawMessage) (answers []*bool, err error) {
	timeout = min(timeout, Longest)
	begun := false // else nothing was asked, whatever has failed
	err = deadline.Do(ctx, "conditions.ask", timeout+more, func(ctx context.Context) (err error) {
		if s.conn == nil {
			if s.conn, err = postgres.Connect(ctx, s.url, s.application, s.how...); err != nil {
				s.conn = nil
				return fmt.Errorf("connect: %w", err)
			}
		}
		if _, err := s.conn.Exec(ctx, fmt.Sprintf(begin, timeout.Milliseconds()), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		begun = true
		answers, err = s.ask(ctx, name, configs)
		return err
	})
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return answers, nil
	case begun && errors.As(err, &pg) && !away(pg.Code):
		return nil, &Error{Condition: name, Problem: said(pg, timeout)}
	}
	s.Close(ctx)
	if late := (*deadline.Error)(nil); begun && errors.As(err, &late) && ctx.Err() == nil && s.answers(ctx) {
		return nil, &Error{Condition: name, Problem: fmt.Sprintf("did not end within %s", timeout+more)}
	}
	return nil, fmt.Errorf("ask condition %s: %w", name, err)
}

// ask asks, and ends the transaction.
func (s *Session) ask(ctx context.Context, name string, configs []json.RawMessage) (answers []*bool, err error) {
	defer func() {
		if _, problem := s.conn.Exec(ctx, end, pgx.QueryExecModeSimpleProtocol); problem != nil {
			s.Close(ctx)
			err = errors.Join(err, problem)
		}
	}()
	all := make([][]byte, len(configs))
	for i, config := range configs {
		all[i] = config
	}
	rows, err := s.conn.Query(ctx, `SELECT condition_queries.`+pgx.Identifier{name}.Sanitize()+
		`(k.config) FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY k(config, no) ORDER BY k.no`,
		append(append([]byte{'['}, bytes.Join(all, []byte{','})...), ']'))
	if err != nil {
		return nil, err
	}
	answers, err = pgx.CollectRows(rows, pgx.RowTo[*bool])
	if err == nil && len(answers) != len(configs) {
		err = fmt.Errorf("%d answers to %d questions", len(answers), len(configs))
	}
	return answers, err
}

// answers says whether Postgres answers a new connection: then it was the question that did not end.
func (s *Session) answers(ctx context.Context) bool {
	return deadline.Do(ctx, "conditions.reconnect", more, func(ctx context.Context) (err error) {
		if s.conn, err = postgres.Connect(ctx, s.url, s.application, s.how...); err != nil {
			s.conn = nil
		}
		return err
	}) == nil
}

// away says whether Postgres ends the connection or takes none; whatever else it says is about the question.
func away(code string) bool {
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || code == "53300"
}

func said(pg *pgconn.PgError, timeout time.Duration) string {
	switch pg.Code {
	case "57014":
		return fmt.Sprintf("took longer than %s", timeout)
	case "42501":
		return fmt.Sprintf("failed: %s; it may read what is granted to role echomind_conditions", pg.Message)
	}
	return "failed: " + pg.Message
}

// NoAnswer is the Error of a condition that said neither yes nor no.
func NoAnswer(name string) error {
	return &Error{Condition: name, Problem: "has no answer: its query returned no row, or null"}
}

// NotMet is the reason of the verdict of what a condition passes over.
func NotMet(name string) string { return fmt.Sprintf("condition `%s` not met", name) }
