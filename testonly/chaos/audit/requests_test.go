package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
)

const (
	madeOnce   = "every change that is answered is made once"
	noHalf     = "no change without its entry in the audit"
	eachOnce   = "operations on many come to each once"
	noDefect   = "no request fails by a defect"
	ofAudit    = `ALTER TABLE audit DISABLE TRIGGER audit_refuse`
	startsOver = `SELECT moves.note_change('connectors.sync', id::text, NULL, NULL, c) FROM connectors c WHERE id = $1`
)

// byRequest makes statements one transaction of the API, for user 1.
func (l *lab) byRequest(id string, work func(do func(query string, args ...any))) {
	l.t.Helper()
	tx, err := l.pool.Begin(ctx)
	require.NoError(l.t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	do := func(query string, args ...any) {
		l.t.Helper()
		_, err := tx.Exec(ctx, query, args...)
		require.NoError(l.t, err)
	}
	do(`SELECT set_config('echomind.request', $1, true)`, fmt.Sprintf(`{"user_id": 1, "role": "superadmin", "request_id": %q}`, id))
	work(do)
	require.NoError(l.t, tx.Commit(ctx))
}

// keep keeps the key of a request.
const keep = `INSERT INTO request_keys (user_id, key, asked, done) VALUES (1, $1, '', $2)`

// answered is one of the findings about what was asked.
func (l *lab) answered(name string, of ...audit.Asked) audit.Finding {
	l.t.Helper()
	all, err := audit.Answered(ctx, l.pool, audit.Requests{Asked: of, Answers: 1}, false)
	require.NoError(l.t, err)
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	l.t.Fatalf("there is no check %q", name)
	return audit.Finding{}
}

// answeredWrong fails the test unless the check has found the violation.
func (l *lab) answeredWrong(name, part string, of ...audit.Asked) {
	l.t.Helper()
	f := l.answered(name, of...)
	require.NotZero(l.t, f.Checked, "it has looked at nothing")
	require.Contains(l.t, strings.Join(f.Violations, "\n"), part)
	found.Store(name, true)
}

func asked(outcome audit.Outcome, requests ...string) audit.Asked {
	return audit.Asked{Name: "k", IsKeyed: true, UserID: 1, Action: "connectors.disable", Requests: requests, Outcome: outcome}
}

func TestAChangeThatTheAuditHasOnceIsInOrder(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	for _, outcome := range []audit.Outcome{audit.Unknown, audit.Refused} {
		require.Empty(t, l.answered(madeOnce, asked(outcome, "a", "b")).Violations)
	}
	l.byRequest("b", func(do func(string, ...any)) {
		do(`SELECT moves.disable($1)`, id)
		do(keep, "k", fmt.Sprint(id))
	})
	for _, outcome := range []audit.Outcome{audit.Unknown, audit.Done} {
		require.Empty(t, l.answered(madeOnce, asked(outcome, "a", "b")).Violations)
	}
	require.Empty(t, l.answered(noHalf).Violations)
	require.Equal(t, 1, l.answered(noHalf).Checked)
	l.answeredWrong(madeOnce, "was refused, and the audit has it 1 times", asked(audit.Refused, "b"))
}

func TestAnAnsweredChangeThatTheAuditDoesNotHaveIsFound(t *testing.T) {
	l := newLab(t)
	l.answeredWrong(madeOnce, "was answered with success, and the audit has it 0 times", asked(audit.Done, "a", "b"))
	all, err := audit.Answered(ctx, l.pool, audit.Requests{Asked: []audit.Asked{asked(audit.Done, "a")}}, true)
	require.NoError(t, err)
	require.Empty(t, all[0].Violations, "Postgres has lost its last commits")
}

func TestAChangeThatIsMadeTwiceForOneKeyIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	for _, request := range []string{"a", "b"} {
		l.byRequest(request, func(do func(string, ...any)) { do(`SELECT moves.disable($1)`, id) })
		l.byRequest("other"+request, func(do func(string, ...any)) { do(`SELECT moves.enable($1)`, id) })
	}
	for _, outcome := range []audit.Outcome{audit.Unknown, audit.Done} {
		l.answeredWrong(madeOnce, "and the audit has it 2 times", asked(outcome, "a", "b"))
	}
}

func TestAChangeWithoutItsKeyOrAnotherActionIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.byRequest("a", func(do func(string, ...any)) { do(`SELECT moves.trigger_sync($1)`, id) })
	l.answeredWrong(madeOnce, "is connectors.sync in the audit", asked(audit.Done, "a"))
	l.answeredWrong(madeOnce, "its key is kept: false", asked(audit.Done, "a"))
	l.do(keep, "k", "")
	l.answeredWrong(madeOnce, `its key is kept: true, with ""`, asked(audit.Done, "a"))
	l.do(`UPDATE request_keys SET done = '1'`)
	l.answeredWrong(madeOnce, "has 0 entries in the audit; its key is kept: true", asked(audit.Unknown, "b"))
}

func TestEachChangeOfTheAPIHasItsEntry(t *testing.T) {
	l := newLab(t)
	var id int32
	l.byRequest("add", func(do func(string, ...any)) {
		do(`INSERT INTO connectors (name, type, user_id) VALUES ('two', 'synthetic', 1)`)
	})
	l.ask(&id, `SELECT id FROM connectors`)
	for request, act := range map[string]string{
		"update": `UPDATE connectors SET name = 'new', config = '{"seed": 1}' WHERE id = $1`, "sync": `SELECT moves.trigger_sync($1)`, "twice": `SELECT moves.trigger_sync($1)`,
	} {
		l.byRequest(request, func(do func(string, ...any)) { do(act, id) })
	}
	for _, act := range []string{`SELECT moves.disable($1)`, `SELECT moves.disable($1)`, `SELECT moves.enable($1)`, `DELETE FROM connectors WHERE id = $1`} {
		l.byRequest("request", func(do func(string, ...any)) { do(act, id) })
	}
	f := l.answered(noHalf)
	require.Empty(t, f.Violations)
	require.Equal(t, 7, f.Checked)
}

func TestAChangeWithoutAnEntryAndAnEntryWithoutAChangeAreFound(t *testing.T) {
	for name, spoil := range map[string]struct{ how, then, part string }{
		"no entry":         {`ALTER TABLE connectors DISABLE TRIGGER connectors_noted_deleted`, `DELETE FROM connectors WHERE id = $1`, "has 1 times connectors.delete, and the audit 0 times"},
		"no change":        {`SELECT`, startsOver, "has 0 times connectors.sync, and the audit 1 times"},
		"an entry is lost": {ofAudit, `SELECT moves.disable($1)`, "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			l.do(spoil.how)
			l.byRequest("first", func(do func(string, ...any)) { do(`SELECT moves.trigger_sync($1)`, id) })
			require.Empty(t, l.answered(noHalf).Violations)
			l.byRequest("a", func(do func(string, ...any)) { do(spoil.then, id) })
			if spoil.how == ofAudit {
				require.Empty(t, l.answered(noHalf).Violations)
				l.do(`DELETE FROM audit WHERE request_id = 'a'`)
			}
			l.answeredWrong(noHalf, spoil.part)
		})
	}
}

// operation begins one that disables connectors.
func (l *lab) operation(ids ...int32) (id int32) {
	l.t.Helper()
	l.ask(&id, `INSERT INTO operations (action, filter, user_id, role, matched, left_out, state, began_at) VALUES ('disable', '{}', 1, 'user', $1, 0, 'running', clock_timestamp()) RETURNING id`, len(ids))
	l.do(`INSERT INTO operation_batches (operation_id, no, connectors) VALUES ($1, 0, $2)`, id, ids)
	return id
}

// batch disables connectors for an operation and notes so many as changed, and others as left out.
func (l *lab) batch(operation int32, changed int, disabled, skipped []int32) {
	l.t.Helper()
	l.byRequest(fmt.Sprint("operation/", operation), func(do func(string, ...any)) {
		for _, id := range disabled {
			do(`SELECT moves.disable($1)`, id)
		}
		do(`SELECT api.note_batch($1, 0, $2, 0, $3, array_fill('skipped'::text, ARRAY[cardinality($3::int[])]), array_fill('gone'::text, ARRAY[cardinality($3::int[])]), '{}', '{}', '{}', '1 second')`,
			operation, changed, skipped)
	})
}

func TestAnOperationThatComesToEachOnceIsInOrder(t *testing.T) {
	l := newLab(t)
	a, b, c := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	id := l.operation(a, b, c)
	l.answeredWithOpen(id)
	l.batch(id, 2, []int32{a, b}, []int32{c})
	f := l.answered(eachOnce)
	require.Empty(t, f.Violations)
	require.Equal(t, 3, f.Checked)
	l.do(`UPDATE operations SET state = 'failed', error = 'of its own'`)
	l.answeredWrong(eachOnce, "failed: of its own")
}

// answeredWithOpen finds an operation that has not ended.
func (l *lab) answeredWithOpen(id int32) {
	l.t.Helper()
	require.Contains(l.t, strings.Join(l.answered(eachOnce).Violations, "\n"), fmt.Sprintf("operation %d (disable) has not ended", id))
}

func TestAnOperationThatCountsOtherwiseThanItActsIsFound(t *testing.T) {
	for name, of := range map[string]struct {
		changed  int
		disabled []int
		skipped  []int
		part     string
	}{
		"a batch that is done and not counted": {1, []int{0, 1}, nil, "it says that 1 were changed, 0 stood so, 0 were left out, 0 failed; the audit has 2"},
		"a batch that is counted and not done": {2, []int{0}, nil, "it says that 2 were changed, 0 stood so, 0 were left out, 0 failed; the audit has 1"},
		"changed and left out":                 {1, []int{0}, []int{0}, "has 1 entries in the audit and 1 results for connector"},
		"what it is not for":                   {3, []int{0, 1, 2}, nil, "which is not for it"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			ids := []int32{l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})}
			pick := func(of []int) (some []int32) {
				some = []int32{}
				for _, i := range of {
					some = append(some, ids[i])
				}
				return some
			}
			l.batch(l.operation(ids[:2]...), of.changed, pick(of.disabled), pick(of.skipped))
			l.answeredWrong(eachOnce, of.part)
		})
	}
}

func TestABatchThatIsDoneTwiceIsFound(t *testing.T) {
	l := newLab(t)
	a := l.add("synthetic", source.Config{})
	id := l.operation(a)
	for range 2 {
		l.byRequest(fmt.Sprint("operation/", id), func(do func(string, ...any)) { do(`SELECT moves.disable($1)`, a) })
		l.byRequest("between", func(do func(string, ...any)) { do(`SELECT moves.enable($1)`, a) })
	}
	l.batch(id, 2, nil, []int32{})
	l.answeredWrong(eachOnce, "has 2 entries in the audit and 0 results")
}

func TestAnAnswerThatNobodyShouldHaveIsFound(t *testing.T) {
	l := newLab(t)
	all, err := audit.Answered(ctx, l.pool, audit.Requests{Answers: 2, Wrong: []string{"GET /me: 500"}}, false)
	require.NoError(t, err)
	f := all[len(all)-1]
	require.Equal(t, noDefect, f.Name)
	require.Equal(t, []string{"GET /me: 500"}, f.Violations)
	found.Store(f.Name, true)
}
