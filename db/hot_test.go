package db_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

const (
	// atRest is how many connectors there are, inFlight how many of them are claimed or picked up when it is counted.
	atRest, inFlight = 24_000, 6_000
	// mostBuffers is what one call of a statement may read, whatever is in flight.
	mostBuffers = 40
)

// mayReadMore are statements that may read more, by how they begin, and why.
var mayReadMore = []struct {
	begins, why string
	most        int
}{
	{"SELECT moves.", "a whole move, whose statements are counted one by one, with its events; one in 1,024 events bounds them", 110},
	{"SELECT c.connector_id::integer AS connector_id, c.type::text AS type, c.verdict", "moves.complete, as above", 110},
	{"SELECT p.place::integer AS place", "moves.pick_up_all, as above", 110},
	{"SELECT d.place::integer AS place", "moves.drain_all, as above", 110},
	{"SELECT s.place::integer AS place", "moves.skip_all, as above", 110},
	{"SELECT c.place::integer AS place", "moves.complete_all, as above", 110},
	{"SELECT at - 1, c.id, c.type, moves.complete_locked(", "what it does of one run, whose statements are counted one by one", 110},
	{"-- The types that have something due", "walks over the index entries of what was claimed since the last vacuum, here everything", 150},
	{"-- Whether a type has something due", "as above", 150},
	{"SELECT * FROM moves.acquire_lock(", "as above", 110},
	{"SELECT * FROM moves.lock_by_owner(", "what lock_due does of a capped type, whose statements are counted one by one", 110},
	{"SELECT id, config_version FROM moves.lock_due(", "as above", 110},
	{"SELECT moves.bound_events()", "once in 1,024 events, mostly as the first statement of its session that opens the leaves", 1200},
	{"SELECT * FROM moves.remove_events(", "as above: it opens sixteen leaves of each kind", 60},
}

// reads is what the calls of one statement have read.
type reads struct {
	calls, sum, most int
	plan             string
}

// watched is a connection on which each statement, those within functions too, tells how many buffers it has read.
type watched struct {
	*base
	reads map[string]*reads
	on    bool
}

var spaces = regexp.MustCompile(`\s+`)

// node is a node of a plan with those below it.
type node struct {
	Type    string `json:"Node Type"`
	Subplan string `json:"Subplan Name"`
	CTE     string `json:"CTE Name"`
	Hit     int    `json:"Shared Hit Blocks"`
	Read    int    `json:"Shared Read Blocks"`
	Plans   []node
}

// reads are the buffers of a statement. What a CTE that writes has read is in no other node's count, unless somebody reads what it returns.
func (n node) reads() int {
	var writers []node
	read := map[string]bool{}
	var walk func(node)
	walk = func(n node) {
		if n.Type == "ModifyTable" && n.Subplan != "" {
			writers = append(writers, n)
		}
		read["CTE "+n.CTE] = true
		for _, below := range n.Plans {
			walk(below)
		}
	}
	walk(n)
	all := n.Hit + n.Read
	for _, w := range writers {
		if !read[w.Subplan] {
			all += w.Hit + w.Read
		}
	}
	return all
}

func (b *base) watched() *watched {
	b.Helper()
	w := &watched{reads: map[string]*reads{}}
	cfg, err := pgx.ParseConfig(b.url)
	if err != nil {
		b.Fatal(err)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		_, text, found := strings.Cut(n.Message, "plan:\n")
		if !found || !w.on {
			return
		}
		var explained struct {
			Query string `json:"Query Text"`
			Plan  node
		}
		if err := json.Unmarshal([]byte(text), &explained); err != nil {
			b.Errorf("%v in %s", err, text)
			return
		}
		query := strings.TrimSpace(spaces.ReplaceAllString(explained.Query, " "))
		r := w.reads[query]
		if r == nil {
			r = &reads{}
			w.reads[query] = r
		}
		n0 := explained.Plan.reads()
		r.calls, r.sum = r.calls+1, r.sum+n0
		if n0 > r.most {
			r.most, r.plan = n0, text
		}
	}
	conn, err := pgx.ConnectConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(b.Context()) })
	w.base = &base{b.T, b.url, conn}
	w.exec(`SET plan_cache_mode = force_custom_plan`) // as internal/postgres has it
	w.exec(`LOAD 'auto_explain'`)
	for _, setting := range []string{"log_min_duration = 0", "log_analyze = on", "log_buffers = on", "log_timing = off",
		"log_nested_statements = on", "log_format = json", "log_level = notice"} {
		w.exec(`SET auto_explain.` + setting)
	}
	return w
}

var named = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+\n`)

// queries are those of an owner, by their names.
func queries(t *testing.T, owner string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("queries", owner, "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatal(owner, err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sql := regexp.MustCompile(`sqlc\.narg\('(\w+)'\)`).ReplaceAllString(string(text), "@$1")
		places := named.FindAllStringSubmatchIndex(sql, -1)
		for i, at := range places {
			end := len(sql)
			if i+1 < len(places) {
				end = places[i+1][0]
			}
			all[sql[at[2]:at[3]]] = strings.TrimRight(strings.TrimSpace(sql[at[1]:end]), ";")
		}
	}
	return all
}

var argument = regexp.MustCompile(`@(\w+)`)

// way is how a cycle makes the moves of one run: alone, together with others, with nothing to store, or until its source asks to wait.
type way int

const (
	alone way = iota
	together
	empty
	postponed
)

// cycle takes one connector of a type through everything, as the services do, and stores two messages of it.
func (w *watched) cycle(q map[string]string, kind string, limit int, goes way) {
	w.Helper()
	tx, err := w.conn.Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	do := func(name string, args pgx.NamedArgs) {
		w.Helper()
		sql := q[name]
		if sql == "" {
			w.Fatalf("there is no query %s", name)
		}
		for _, arg := range argument.FindAllStringSubmatch(sql, -1) {
			if _, given := args[arg[1]]; !given {
				w.Fatalf("%s wants @%s", name, arg[1])
			}
		}
		if _, err := w.conn.Exec(w.Context(), sql, args); err != nil {
			w.Fatalf("%s: %v", name, err)
		}
	}
	run, try, worker := uuid.New(), uuid.New(), uuid.New()
	var id int32
	var version int64
	do("DueTypes", pgx.NamedArgs{"now": nil, "only": nil})
	do("DueTypes", pgx.NamedArgs{"now": nil, "only": []string{kind}})
	do("MayClaim", pgx.NamedArgs{"type": kind, "cap": limit})
	if err := tx.QueryRow(w.Context(), `SELECT id, config_version FROM moves.lock_due($1, $2, 1, NULL)`, kind, limit).Scan(&id, &version); err != nil {
		w.Fatalf("lock_due: %v", err)
	}
	do("Claim", pgx.NamedArgs{"claims": fmt.Sprintf(`[{"id":%d,"run_id":%q}]`, id, run), "now": time.Now()})
	if err := tx.Commit(w.Context()); err != nil {
		w.Fatal(err)
	}
	asked := fmt.Sprintf(`[{"connector":%d,"run":%q,"try":%q,"seq":1,"reason":"","unchanged":0}]`, id, run, try)
	if goes == alone {
		do("PickUp", pgx.NamedArgs{"connector_id": id, "run_id": run, "try_id": try, "worker_id": worker, "lease": "15 s"})
	} else {
		do("PickUpAll", pgx.NamedArgs{"asked": asked, "worker_id": worker, "lease": "15 s"})
	}
	do("Heartbeat", pgx.NamedArgs{"worker_id": worker, "lease": "15 s", "run_ids": []uuid.UUID{run}, "try_ids": []uuid.UUID{try}})
	do("DeletionsAllowed", pgx.NamedArgs{"run_id": run, "try_id": try})
	if goes == empty {
		do("SkipAll", pgx.NamedArgs{"asked": asked})
		w.rests(id)
		return
	}
	if goes == postponed {
		wait := pgx.NamedArgs{"run_id": run, "try_id": try, "wait": "1 h", "message": "the source asked us to wait"}
		do("Waits", wait)
		do("Postpone", wait)
		w.rests(id)
		return
	}
	for no := int64(1); no <= 2; no++ {
		of := func(more pgx.NamedArgs) pgx.NamedArgs {
			args := pgx.NamedArgs{"run_id": run, "try_id": try, "connector_id": id, "config_version": version, "no": no}
			for k, v := range more {
				args[k] = v
			}
			return args
		}
		source := fmt.Sprintf("doc-%d", no)
		do("RunOfTry", of(nil))
		do("BeginTry", of(pgx.NamedArgs{"mark": uuid.New()}))
		do("WriteNothing", of(nil))
		part := pgx.NamedArgs{"nos": []int64{no}, "given_ups": []string{""}, "first_nos": []int64{no}, "parts": []int64{1},
			"claims": []uuid.UUID{uuid.Nil}, "chunks": []int32{0}, "text_bytes": []int64{0}, "highest": no}
		do("CountMessages", of(part))
		do("LockDocuments", of(pgx.NamedArgs{"source_ids": []string{source}}))
		document := one[int64](w.base, `SELECT id FROM documents WHERE connector_id = $1 AND source_id = $2`, id, source)
		w.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, start_offset, end_offset, embedder, embedding)
			VALUES ($1, $2, $3, 1, 'text', 0, 4, 'hash', '{1,2}')`, try, no, document)
		part["ids"] = []int64{document}
		do("CountParts", of(part))
		do("PartsWaitNoLonger", of(part))
		do("WriteDocuments", storedDocument(document, version, try, no))
		do("CountStored", of(pgx.NamedArgs{"stored": 1, "notes": 0, "waiting": 0, "unnamed": 0, "processed": 1, "failed": 0, "deleted": 0, "chunks": 1,
			"highest": no}))
		do("StoredUpTo", pgx.NamedArgs{"try_ids": []uuid.UUID{try}})
		if no == 1 {
			do("LockRun", of(nil))
			do("HighestNumber", of(nil))
			do("RecordCompleted", of(pgx.NamedArgs{"total": 2, "new_state": `{"cursor":1}`, "listing_whole": true, "unchanged": 0, "reason": nil}))
			if goes == alone {
				do("Drain", of(pgx.NamedArgs{"seq": 1}))
			} else {
				do("DrainAll", pgx.NamedArgs{"asked": asked})
			}
			do("Advance", of(nil))
		}
	}
	do("WholeRuns", pgx.NamedArgs{"after": uuid.Nil, "page": 10})
	if goes == alone {
		do("Complete", pgx.NamedArgs{"run_id": run})
	} else {
		do("CompleteAll", pgx.NamedArgs{"run_ids": []uuid.UUID{run}})
	}
	w.rests(id)
}

func (w *watched) rests(id int32) {
	w.Helper()
	if status := w.status(id); status != "ACTIVE" {
		w.Fatalf("it stands in %s", status)
	}
}

func TestNoHotStatementReadsMoreThanAFewDozenBuffersWhateverIsInFlight(t *testing.T) {
	// A server of its own: while any transaction of a cluster writes, in whichever database, index entries of what
	// is dead are not passed over for good, and each statement walks past them again.
	_, url := testkit.PrivatePostgres(t, db.Up)
	b := connectTo(t, url)
	q := map[string]string{}
	for _, owner := range []string{"scheduler", "lifecycle", "semantic", "worker"} {
		for name, sql := range queries(t, owner) {
			q[name] = sql
		}
	}
	// Statistics of a quiet time, and nobody renews them: an ANALYZE also keeps dead rows from being passed over.
	b.exec(`DO $$ DECLARE t regclass; BEGIN
		FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
			EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', t);
		END LOOP;
	END $$`)
	b.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'docs', (ARRAY['web', 'file', 'teams', 'onedrive'])[1 + n % 4], 1 + n % 100, 60 FROM generate_series(1, 400) n`)
	movestest.Multiply(t, b.conn, atRest/400)
	b.exec(`VACUUM ANALYZE`)
	known := b.watched() // has prepared and planned everything while nothing was in flight
	cycles := func(w *watched, n int) {
		for i := range n {
			w.cycle(q, "web", 0, way(i%4))
			w.cycle(q, "onedrive", 10, way(i%4))
		}
	}
	cycles(known, 30)
	b.exec(`DO $$ BEGIN
		FOR n IN 1..` + fmt.Sprint(inFlight/500) + ` LOOP
			PERFORM moves.claim((SELECT jsonb_agg(jsonb_build_object('id', c.id, 'run_id', gen_random_uuid()))
				FROM moves.lock_due((ARRAY['web', 'file', 'teams'])[1 + n % 3], 0, 500) c), clock_timestamp());
		END LOOP;
	END $$`)
	b.exec(`SELECT count(moves.pick_up(c.id, c.run_id, gen_random_uuid(), md5((c.id % 200)::text)::uuid, '15 s'))
		FROM connectors c WHERE c.status = 'PENDING' AND c.id % 2 = 0`)
	b.exec(`SELECT count(moves.drain(r.id, r.try_id, r.connector_id)) FROM open_runs r WHERE r.picked_up_at IS NOT NULL AND r.connector_id % 4 = 0`)
	if n := one[int](b, `SELECT count(*) FROM open_runs`); n < inFlight {
		t.Fatalf("%d are in flight", n)
	}
	for name, w := range map[string]*watched{"planned at rest": known, "new": b.watched()} {
		w.on = true
		cycles(w, 60)
		w.on = false
		t.Run(name, func(t *testing.T) { w.judge(t) })
	}
}

// judge fails the test where a statement has read too much.
func (w *watched) judge(t *testing.T) {
	type line struct {
		query string
		*reads
	}
	var lines []line
	for query, r := range w.reads {
		lines = append(lines, line{query, r})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(b.most, a.most) })
	for _, l := range lines {
		t.Logf("%5d calls, %6.1f buffers on average, at most %5d: %.150s", l.calls, float64(l.sum)/float64(l.calls), l.most, l.query)
		most := mostBuffers
		for _, exempt := range mayReadMore {
			if strings.HasPrefix(l.query, exempt.begins) {
				most = exempt.most
			}
		}
		if l.sum > most*l.calls {
			t.Errorf("%.1f buffers a call, want %d at most: %s\n%s", float64(l.sum)/float64(l.calls), most, l.query, l.plan)
		}
	}
}
