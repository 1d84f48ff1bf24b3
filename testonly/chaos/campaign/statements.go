package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/world"
)

const (
	// buffersBound is how many buffers a statement may touch for each row that it returns or writes, at least one.
	buffersBound = 60
	// heldBound is the same while somebody's transaction keeps Postgres from clearing up: each look then passes by the old
	// versions of all that was claimed, planned and picked up since that transaction began.
	heldBound = 1000
	// heldAfter is how long a transaction stands before it counts, and how long what it has kept is being cleared up after it.
	heldAfter = 2 * time.Second
	// warmCalls is how often it must have been called: each new connection first reads the catalogue.
	warmCalls = 100
	// readsPoll is the time between two looks at what the statements have read.
	readsPoll = time.Second
)

// firstCall is why a rare move may touch more: of Fail, the first call of a session 1,300 buffers, which are the catalogue's, and each
// later one 56. Of PickUp it is some more since its triggers write to leaves.
const firstCall = "a move, and rare: each connection reads the catalogue for its first"

// apiBound is how many a statement of the API may touch: its replicas are killed often and each is asked little, and each connection reads the catalogue for its
// first call. Of Authenticate 67 in a run that kept killing replicas. What later calls read is bounded by the tests of these statements.
const apiBound = 400

// allowed are the statements that may touch more, how many, and why; a move called by its name by that.
var allowed = map[string]struct {
	buffers float64
	why     string
}{
	"PickUp":                  {1000, firstCall}, // alone only where several together had no answer
	"PickUpAll":               {400, "as PickUp, one row a run; system jobs are picked up by connections that are new, or nearly so"},
	"EndJob":                  {800, firstCall},
	"AddSystemJob":            {400, "five calls as a process starts, of which the first ever add the jobs: each connection reads the catalogue for its first"},
	"HurryOrphanSweep":        {800, "each 5 s by a process that is killed often: 597 for a connection's first call, 8 for each later one"},
	"SkipAll":                 {400, "as PickUpAll; the harness's own triggers write its history"},
	"LockStale":               {60 * 1000, "one row for a page of 1000 connectors that wait for keys"},
	"Park":                    {60 * 500, "one row for a batch of up to 500 that begin to wait for a key"},
	"Unpark":                  {60 * 500, "one row for a batch of up to 500 that wait no longer"},
	"WaitingKeys":             {200, "by schedulers that are killed often: 583 for a connection's first call, 9 for each later one"},
	"UpstreamsToTell":         {150, "mostly finds nobody, behind what was told of since the last look"},
	"FollowersToLookAt":       {150, "as UpstreamsToTell"},
	"HandOnAll":               {60 * 100, "one row for a page of up to 100 connectors that have ended"},
	"HandOn":                  {60 * 1000, "one row for a page of up to 1000 that run after one"},
	"RemoveEvents":            {60 * 1000, "one row for a page of up to 1000 events"},
	"ClearEvents":             {1000, "each 5 s by processes that are killed often: 821 for a connection's first call, 1 for each later one"},
	"RetryRefused":            {800, "each 15 s by processes that are killed often: 1,139 for a connection's first call, 15 for each later one"},
	"NoteEmptyEvents":         {2000, "as ClearEvents, 1,383 and 99: its first look for the oldest event reads the catalogue"},
	"EventsWaiting":           {2700, "as ClearEvents, 594 and 32; behind an old transaction it passes by the rows that died since events were last noted empty"},
	"HandOnChanged":           {800, "mostly finds nobody, by schedulers that are killed often: a connection's first call"},
	"HaveTold":                {800, firstCall},
	"TakeTurnToPublish":       {400, "353 for a connection's first call, which are the catalogue's, and 3 for each later one; processes are killed often"},
	"LockFollowers":           {60 * 100, "no row for those of a page of 100 that do not wait"},
	"LetFollow":               {60 * 100, "one row for a page of up to 100"},
	"LookAgain":               {60 * 100, "as LetFollow"},
	"StopFollowing":           {60 * 100, "as LetFollow"},
	"GiveUpFollowing":         {60 * 100, "as LetFollow"},
	"Skip":                    {400, "a move, and rare: each process reads the catalogue for its first"},
	"Disable":                 {800, firstCall},
	"Enable":                  {800, firstCall},
	"Sync":                    {800, firstCall},
	"DeleteConnector":         {1500, "by replicas of the API: 926 for a connection's first call, and those of its thirteen triggers, 20 for each later one"},
	"SeenEvidence":            {800, "by replicas of the API: 1,956 for a connection's first call, 168 for each of the next, which are planned, and 28 for those that keep their plan"},
	"ChangeableMatching":      {100_000, "as ConnectorsThrough, or few rows"},
	"CountUnchangeable":       {100_000, "as ConnectorsThrough"},
	"ConnectorsThrough":       {100_000, "one row, or none, for a look at up to 100,000 connectors, which an operation on many matches"},
	"NoteFaults":              {60 * 500, "one row for a page of up to 500 connectors that are failed or late; each process reads the catalogue for its first"},
	"moves.pick_up":           {200, "a move, as another team calls it"},
	"moves.finish":            {200, "a move, as another team calls it"},
	"Complete":                {400, "as SkipAll, in few calls by processes that are killed often"},
	"CompleteAll":             {200, "as Complete, one row a run"},
	"Fail":                    {800, firstCall},
	"Release":                 {800, firstCall},
	"AcquireLock":             {800, firstCall},
	"RenewLock":               {800, firstCall},
	"FreeLocks":               {800, firstCall},
	"Advance":                 {200, "a move: the harness's own triggers look at what is stored at a checkpoint"},
	"Known":                   {200, "a call of few rows, or none; each connection reads the catalogue for its first"},
	"LockDue":                 {150, "a call of a row or two, which counts what is in flight up to the cap, and asks whose turn it is"},
	"Heartbeat":               {200, "the harness's own triggers watch the leases; each process reads the catalogue for its first"},
	"WriteDocuments":          {120, "the harness's own triggers write the history of documents"},
	"PendingTypes":            {100, "asks for each type, also the system's six"},
	"DueTypes":                {100, "asks for each type, behind what was claimed since the last look"},
	"Claim":                   {60 * 500, "one row for a batch of up to 500 claims"},
	"MissPassed":              {200, "mostly a call of a row or two; the harness's own triggers write its history"},
	"Plan":                    {60 * 500, "one row for a batch of up to 500 plans"},
	"ReplanCalendars":         {60 * 500, "one row for a batch of up to 500 schedules of a calendar that has changed"},
	"HoldBlackout":            {60 * 500, "one row for a batch of up to 500 connectors that a blackout window holds"},
	"ReleaseHeld":             {60 * 500, "one row for a batch of up to 500 connectors of a window that has changed"},
	"Blackouts":               {100, "each connection reads the catalogue for its first"},
	"NoteMet":                 {60 * 500, "one row for a batch of up to 500 answers of conditions"},
	"FailConditions":          {60 * 500, "as NoteMet"},
	"ConnectorsByStatus":      {150, "every 10 s; a few rows that count everything in flight"},
	"KeysWaited":              {200, "every 10 s; one row that counts all that waits for keys, and all places"},
	"Backlog":                 {150, "every 10 s; a row that counts everything due of a type"},
	"OwnerHasRoom":            {20_000, "one row of what all connectors of an owner have; every 10 s, or each second while something is refused"},
	"TakeUnswept":             {100, "the first batch of a look passes by what was taken since the last vacuum"},
	"CountSearchIndexChanges": {200, "one row that counts what waits"},
	"TakeReviewOfSearchIndex": {200, "rare: each process reads the catalogue for its first"},
	"QueueOutdated":           {60 * 256, "one row for a page of 256 points"},
	"CountUnswept":            {200, "one row that counts what waits, up to 100,000"},
	"Redispatch":              {800, firstCall},
	"NotePublished":           {60 * 500, "one row for a batch of up to 500 answers"},
	"Rescue":                  {800, firstCall},
	"Abandon":                 {800, firstCall},
	"FailLostInTransit":       {800, firstCall},
	"FailNotTaken":            {800, firstCall},
	"KeepLedger":              {2000, "looks at every partition, once an hour"},
	"ForgetWorkers":           {400, "looks at every worker, once an hour"},
	"SweepOrphanChunks":       {60 * 1000, "one row for a page of 1000 keys of chunks"},
	"SweepOutdated":           {60 * 1000, "one row for a page of 1000 documents"},
	"SweepLeftovers":          {60 * 1000, "one row for a page of 1000 documents"},
	"SightedListings":         {200, "a step of the index for each listing, and what a connector hands on"},
	"SweepSightings":          {60 * 2000, "one row for a batch of 2000 sightings"},
	"SweepChunks":             {60 * 2000, "one row for a batch of 2000 chunks"},
}

// read is what a statement has read up to some moment, or within some time.
type read struct {
	Query               string
	IsAPI               bool
	Calls, Rows, Blocks int64
}

func (r read) perRow() float64 { return float64(r.Blocks) / float64(max(r.Calls, r.Rows)) }

// reads counts what the statements read: apart, what they do while a transaction stands that keeps old versions of rows, and
// shortly after it.
type reads struct {
	mu         sync.Mutex
	last       map[string]read
	free, held map[string]read
	// since is when each holder was first seen, by the harness's clock: Postgres's may step.
	since map[string]time.Time
	// heldUntil is when what was kept is cleared up.
	heldUntil time.Time
}

func newReads() *reads {
	return &reads{last: map[string]read{}, free: map[string]read{}, held: map[string]read{}}
}

// watch looks until ctx ends. Postgres away is no look.
func (r *reads) watch(ctx context.Context, w *world.World) {
	for ctx.Err() == nil {
		r.look(ctx, w)
		select {
		case <-ctx.Done():
		case <-time.After(readsPoll):
		}
	}
}

func (r *reads) look(ctx context.Context, w *world.World) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// A vacuum keeps nothing; an ANALYZE does.
	rows, _ := w.Pool.Query(ctx, `
		SELECT format('%s %s', pid, xact_start) FROM pg_stat_activity
		WHERE (backend_xid IS NOT NULL OR datname = current_database() AND backend_xmin IS NOT NULL) AND pid <> pg_backend_pid()
			AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)`)
	holders, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return
	}
	rows, _ = w.Pool.Query(ctx, `
		SELECT userid || '/' || queryid, query, pg_get_userbyid(userid) = 'echomind_api', calls, rows, shared_blks_hit + shared_blks_read
		FROM pg_stat_statements WHERE pg_get_userbyid(userid) LIKE 'echomind\_%' AND toplevel`)
	present := map[string]read{}
	var id string
	var one read
	if _, err := pgx.ForEachRow(rows, []any{&id, &one.Query, &one.IsAPI, &one.Calls, &one.Rows, &one.Blocks}, func() error {
		present[id] = one
		return nil
	}); err != nil {
		return // not installed, or away
	}
	r.count(time.Now(), holders, present)
}

// count adds what was read since the look before.
func (r *reads) count(now time.Time, holders []string, present map[string]read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := map[string]time.Time{}
	wasHeld := now.Before(r.heldUntil)
	for _, h := range holders {
		if since[h] = r.since[h]; since[h].IsZero() {
			since[h] = now
		}
		if now.Sub(since[h]) >= heldAfter {
			r.heldUntil = now.Add(heldAfter + readsPoll)
		}
	}
	r.since = since
	into := r.free
	if wasHeld || now.Before(r.heldUntil) {
		into = r.held
	}
	for id, p := range present {
		before := r.last[id]
		if p.Calls < before.Calls {
			before = read{} // Postgres has crashed, and begun to count anew
		}
		sum := into[id]
		into[id] = read{p.Query, p.IsAPI, sum.Calls + p.Calls - before.Calls, sum.Rows + p.Rows - before.Rows, sum.Blocks + p.Blocks - before.Blocks}
	}
	r.last = present
}

// finding judges what was read in both times, each by its bound.
func (r *reads) finding() audit.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := audit.Finding{
		Promise: 3, Name: "no statement reads much",
		How: fmt.Sprintf("a statement of a program touches at most %d buffers a row, but for those that are named to be exempt; "+
			"%d while a transaction has stood for %s that keeps old versions of rows", buffersBound, heldBound, heldAfter),
	}
	if len(r.last) == 0 {
		f.Checked = 1 // not installed: there is nothing to look at
		return f
	}
	judge := func(all map[string]read, bound float64, when string) {
		var much []read
		for _, q := range all {
			if q.Calls < warmCalls {
				continue
			}
			f.Checked++
			most := max(bound, allowed[statementName(q.Query)].buffers)
			if q.IsAPI {
				most = max(most, apiBound)
			}
			if q.perRow() > most {
				much = append(much, q)
			}
		}
		slices.SortFunc(much, func(a, b read) int { return int(b.perRow() - a.perRow()) })
		for _, q := range much {
			violated(&f, fmt.Sprintf("%.0f buffers a row%s, %d calls, %d rows: %.120s", q.perRow(), when, q.Calls, q.Rows,
				strings.Join(strings.Fields(q.Query), " ")))
		}
	}
	judge(r.free, buffersBound, "")
	judge(r.held, heldBound, " behind a transaction that stands")
	return f
}

// statementName is what a query file calls a statement; of a move that is called without one, the move's name.
func statementName(query string) string {
	_, rest, found := strings.Cut(query, "-- name: ")
	if found {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	if move, found := strings.CutPrefix(query, "SELECT moves."); found {
		name, _, _ := strings.Cut(move, "(")
		return "moves." + name
	}
	return ""
}
