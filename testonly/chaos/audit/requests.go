package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Outcome is what a client of the API knows of a change that it has asked for.
type Outcome int

// What it may know.
const (
	// Unknown: nobody has answered, or the answer leaves open whether an earlier try is still being worked on.
	Unknown Outcome = iota
	// Done: it was answered with success.
	Done
	// Refused: its only try was answered, with a refusal.
	Refused
)

// String says it in a sentence.
func (o Outcome) String() string {
	return [...]string{"has no answer", "was answered with success", "was refused"}[o]
}

// Asked is a change that a client has asked the API for, and what it wrote down of it.
type Asked struct {
	// Name tells it from others; it is its Idempotency-Key where IsKeyed says so.
	Name    string
	IsKeyed bool
	UserID  int32
	// Action is what the audit calls it, such as connectors.update.
	Action string
	// Requests are the ids of its tries.
	Requests []string
	Outcome  Outcome
}

// Requests are what clients of the API have written down.
type Requests struct {
	Asked []Asked
	// Answers is how many answers there were; Wrong are those that no client should have, such as a 500.
	Answers int
	Wrong   []string
}

// Answered holds what clients of the API have written down against the audit, and the audit against what has changed. commitsLost says that Postgres
// has forgotten what it had answered.
func Answered(ctx context.Context, pool *pgxpool.Pool, of Requests, commitsLost bool) ([]Finding, error) {
	defects := Finding{
		Promise: 6, Name: "no request fails by a defect", Checked: of.Answers,
		How: "the API answers with success, a refusal that says what is wrong, or a 503 that says when to come again",
	}
	for _, wrong := range of.Wrong {
		defects.violated("%s", wrong)
	}
	once, err := once(ctx, pool, of.Asked, commitsLost)
	if err != nil {
		return nil, err
	}
	whole, err := whole(ctx, pool)
	if err != nil {
		return nil, err
	}
	many, err := many(ctx, pool)
	return []Finding{once, whole, many, defects}, err
}

// once: the audit has each change as often as its client knows it to be done.
func once(ctx context.Context, pool *pgxpool.Pool, all []Asked, commitsLost bool) (Finding, error) {
	f := Finding{
		Promise: 6, Name: "every change that is answered is made once", Checked: len(all),
		How: "the audit has each change that was answered once, by the id of one of its requests, one without an answer once or not at all, one that was refused never",
	}
	entries, keys, err := audited(ctx, pool)
	if err != nil {
		return f, err
	}
	for _, a := range all {
		var found []string
		for _, id := range a.Requests {
			found = append(found, entries[id]...)
		}
		least, most := 0, 1
		switch {
		case a.Outcome == Done && !commitsLost:
			least = 1
		case a.Outcome == Refused:
			most = 0
		}
		what := fmt.Sprintf("%s %s of user %d, requests %v,", a.Action, a.Name, a.UserID, a.Requests)
		if n := len(found); n < least || n > most {
			f.violated("%s %s, and the audit has it %d times: %v", what, a.Outcome, n, found)
		}
		for _, action := range found {
			if action != a.Action {
				f.violated("%s is %s in the audit", what, action)
			}
		}
		if done, has := keys[a.key()]; a.IsKeyed && (has != (len(found) > 0) || has && done == "") {
			f.violated("%s has %d entries in the audit; its key is kept: %t, with %q", what, len(found), has, done)
		}
	}
	return f, nil
}

func (a Asked) key() string { return fmt.Sprint(a.UserID, " ", a.Name) }

// audited are the actions in the audit by request, and the keys that are kept with what they were used for.
func audited(ctx context.Context, pool *pgxpool.Pool) (entries map[string][]string, keys map[string]string, err error) {
	entries, keys = map[string][]string{}, map[string]string{}
	rows, _ := pool.Query(ctx, `SELECT request_id, action FROM audit WHERE source = 'api' AND request_id IS NOT NULL ORDER BY id`)
	var id, what string
	if _, err := pgx.ForEachRow(rows, []any{&id, &what}, func() error {
		entries[id] = append(entries[id], what)
		return nil
	}); err != nil {
		return nil, nil, wrap("read the audit", err)
	}
	rows, _ = pool.Query(ctx, `SELECT user_id || ' ' || key, done FROM request_keys`)
	_, err = pgx.ForEachRow(rows, []any{&id, &what}, func() error {
		keys[id] = what
		return nil
	})
	return entries, keys, wrap("read the keys of requests", err)
}

// whole: what a transaction of the API has changed of connectors, and what it has written into the audit, is the same.
func whole(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 6, Name: "no change without its entry in the audit",
		How: "each transaction of the API has one entry in the audit, by its request, for each change of a connector, and none without one; no entry is gone",
	}
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM chaos.changes`).Scan(&f.Checked); err != nil {
		return f, wrap("count what the API has changed", err)
	}
	rows, err := pool.Query(ctx, `
		SELECT format('request %s, transaction %s: connector %s has %s times %s, and the audit %s times', request, txid, connector_id, coalesce(c.n, 0), action, coalesce(e.n, 0))
		FROM (SELECT request, txid, connector_id, action, count(*) AS n FROM chaos.changes GROUP BY 1, 2, 3, 4) c
		FULL JOIN (SELECT request, txid, connector_id, action, count(*) AS n FROM chaos.entries GROUP BY 1, 2, 3, 4) e USING (request, txid, connector_id, action)
		WHERE c.n IS DISTINCT FROM e.n
		UNION ALL SELECT format('entry %s of the audit, %s of connector %s by request %s, is gone', e.audit_id, e.action, e.connector_id, e.request)
		FROM chaos.entries e WHERE NOT EXISTS (SELECT FROM audit a WHERE a.id = e.audit_id)
		ORDER BY 1`)
	if err != nil {
		return f, wrap("compare the audit with what has changed", err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, line := range wrong {
		f.violated("%s", line)
	}
	return f, wrap("compare the audit with what has changed", err)
}

// many: an operation on many connectors ends, and says of each what was done to it.
func many(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 6, Name: "operations on many come to each once",
		How: "each operation ends; each connector that it is for was changed, with one entry in the audit, or has one result, or stood so already, as its counts say",
	}
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM chaos.members m JOIN operations o ON o.id = m.operation_id WHERE o.ended_at IS NOT NULL`).Scan(&f.Checked); err != nil {
		return f, wrap("count what operations are for", err)
	}
	rows, err := pool.Query(ctx, `
		WITH told AS (
			SELECT m.operation_id, m.connector_id, count(DISTINCT a.id) AS entries, count(DISTINCT r.connector_id) AS results
			FROM chaos.members m JOIN operations o ON o.id = m.operation_id
			LEFT JOIN audit a ON a.request_id = 'operation/' || m.operation_id AND a.connector_id = m.connector_id AND a.action = 'connectors.' || o.action
			LEFT JOIN operation_results r ON r.operation_id = m.operation_id AND r.connector_id = m.connector_id
			GROUP BY 1, 2
		), sums AS (
			SELECT operation_id, count(*) AS members, sum(entries) AS entries, sum(results) AS results FROM told GROUP BY 1
		)
		SELECT format('operation %s (%s) has not ended: it is %s', o.id, o.action, o.state) FROM operations o WHERE o.ended_at IS NULL
		UNION ALL SELECT format('operation %s (%s) failed: %s', o.id, o.action, o.error) FROM operations o WHERE o.state = 'failed'
		UNION ALL SELECT format('operation %s (%s) is %s, for %s of %s connectors: it says that %s were changed, %s stood so, %s were left out, %s failed; the audit has %s, the results %s', o.id, o.action,
			o.state, coalesce(s.members, 0), o.matched, o.changed, o.unchanged, o.skipped, o.failed, coalesce(s.entries, 0), coalesce(s.results, 0))
		FROM operations o LEFT JOIN sums s ON s.operation_id = o.id
		WHERE o.action IN ('sync', 'enable', 'disable', 'delete') AND (s.members IS DISTINCT FROM o.matched OR o.changed <> s.entries OR o.skipped + o.failed <> s.results
			OR o.state = 'completed' AND o.changed + o.unchanged + o.skipped + o.failed <> o.matched)
		UNION ALL SELECT format('operation %s has %s entries in the audit and %s results for connector %s', operation_id, entries, results, connector_id) FROM told WHERE entries + results > 1
		UNION ALL SELECT format('the audit has %s of connector %s by %s, which is not for it', a.action, a.connector_id, a.request_id) FROM audit a
		WHERE a.request_id LIKE 'operation/%' AND a.connector_id IS NOT NULL
			AND NOT EXISTS (SELECT FROM chaos.members m WHERE 'operation/' || m.operation_id = a.request_id AND m.connector_id = a.connector_id)
		ORDER BY 1`)
	if err != nil {
		return f, wrap("look at the operations", err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, line := range wrong {
		f.violated("%s", line)
	}
	return f, wrap("look at the operations", err)
}
