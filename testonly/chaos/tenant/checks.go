package tenant

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/fault"
)

// check waits for rest and holds everything against what must be.
func (l *lab) check(ctx context.Context) error {
	atRest, alive := l.atRest(ctx), l.alive()
	for _, p := range l.Processes {
		l.peaks = append(l.peaks, fmt.Sprintf("%s %s", p.Name, peak(p.PID())))
	}
	for _, end := range l.StopPrograms() {
		violated(&alive, "%s", end)
	}
	l.findings = append(l.findings, atRest, alive)
	all, err := l.chunks(ctx)
	if err != nil {
		return err
	}
	searched, err := l.searched(ctx, all)
	if err != nil {
		return err
	}
	l.findings = append(l.findings, l.whole(all), searched, l.repeats.Finding(grace, false), l.happened())
	for _, look := range []func(context.Context) (audit.Finding, error){l.completed, l.unforged, l.letters} {
		f, err := look(ctx)
		if err != nil {
			return err
		}
		l.findings = append(l.findings, f)
	}
	return l.audited(ctx)
}

func (l *lab) atRest(ctx context.Context) audit.Finding {
	f := audit.Finding{
		Promise: 1, Name: "everything comes to rest", Checked: 1,
		How: "once the hostile owner is gone nothing stays due, PENDING, SYNCING, open or not swept",
	}
	if err := campaign.StopSchedules(ctx, l.World); err != nil {
		violated(&f, "%s", err)
	} else if err := campaign.Settle(ctx, l.World, restTimeout); err != nil {
		violated(&f, "%s", err)
	}
	return f
}

// alive holds the processes against those of the beginning: whatever ended one, another stands in its place.
func (l *lab) alive() audit.Finding {
	f := audit.Finding{Promise: 2, Name: "no program ends", How: "every program is still the process that it was before the hostile owner came"}
	for _, p := range l.Processes {
		f.Checked++
		if now := p.PID(); now != l.pids[p.Name] || now == 0 {
			violated(&f, "%s was process %d and is %d", p.Name, l.pids[p.Name], now)
		}
	}
	return f
}

// peak is the most memory that a process has had, where the system says so.
func peak(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, found := strings.Cut(string(text), "VmHWM:")
	if err != nil || !found {
		return "?"
	}
	line, _, _ := strings.Cut(after, "\n")
	return strings.Join(strings.Fields(line), " ")
}

// completed holds the ledger of the others against what their sources are: nothing of them ever fails.
func (l *lab) completed(ctx context.Context) (audit.Finding, error) {
	f := audit.Finding{
		Promise: 3, Name: "others' syncs complete",
		How: "every ordinary connector has completed what was due under attack, is ACTIVE, and none of its runs has failed or was given back",
	}
	from := l.stretches[len(l.stretches)-1].since
	rows, err := l.Pool.Query(ctx, `
		SELECT c.id, c.status, c.failure_count, count(r.id) FILTER (WHERE r.status IN ('completed', 'skipped') AND r.due_at >= $2),
			count(r.id) FILTER (WHERE r.status NOT IN ('completed', 'skipped')), coalesce(min(r.reason) FILTER (WHERE r.status NOT IN ('completed', 'skipped')), '')
		FROM connectors c LEFT JOIN runs r ON r.connector_id = c.id WHERE c.id = ANY ($1) GROUP BY c.id`, l.ids(), from)
	if err != nil {
		return f, wrap("read the others' ledger", err)
	}
	var id int32
	var status, reason string
	var failures, good, bad int
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &failures, &good, &bad, &reason}, func() error {
		f.Checked++
		if status != "ACTIVE" || failures > 0 || good == 0 || bad > 0 {
			violated(&f, "connector %d is %s after %d failures, %d runs completed, %d did not: %s", id, status, failures, good, bad, reason)
		}
		return nil
	})
	return f, wrap("read the others' ledger", err)
}

// unforged looks for what was forged in everything that is stored of the others.
func (l *lab) unforged(ctx context.Context) (audit.Finding, error) {
	f := audit.Finding{
		Promise: 2, Name: "nothing forged is others'",
		How: "no document or chunk of an ordinary connector has a word of what was forged, in any column, nor had a document its token ever",
	}
	rows, err := l.Pool.Query(ctx, `SELECT d.connector_id, d.source_id, (d::text || coalesce(k.text, '')) LIKE '%' || $2 || '%'
		FROM documents d LEFT JOIN chunks k ON k.document_id = d.id WHERE d.connector_id = ANY ($1)
		UNION ALL SELECT connector_id, source_id, version_token = $2 FROM chaos.document_events WHERE connector_id = ANY ($1)`, l.ids(), lie)
	if err != nil {
		return f, wrap("look for what was forged", err)
	}
	var id int32
	var document string
	var lies bool
	_, err = pgx.ForEachRow(rows, []any{&id, &document, &lies}, func() error {
		f.Checked++
		if lies {
			violated(&f, "connector %d: %s is forged", id, document)
		}
		return nil
	})
	return f, wrap("look for what was forged", err)
}

// letters are what was given up: what was forged, and what the forger's own runs said when they had been lied about.
func (l *lab) letters(ctx context.Context) (audit.Finding, error) {
	f := audit.Finding{Promise: 3, Name: "dead letters", How: "only messages that were forged are given up, or are of the forger's own runs"}
	ours := l.ids()
	stream, err := l.Stream.Stream(ctx, topology.DeadLetterStream)
	if err != nil {
		return f, wrap("ask for the dead letters", err)
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq > 0 && seq <= state.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return f, wrap("read a dead letter", err)
		}
		f.Checked++
		said := &internalpb.DocumentProcessRequest{}
		readable := proto.Unmarshal(msg.Data, said) == nil
		if msg.Header.Get(fault.HeaderForged) == "" && (!readable || said.ConnectorId == 0 || slices.Contains(ours, said.ConnectorId)) {
			violated(&f, "letter %d on %s: %s", seq, msg.Subject, msg.Header.Get(topology.HeaderReason))
		}
	}
	return f, nil
}

// happened says whether every attack came to something: one that nobody felt has shown nothing.
func (l *lab) happened() audit.Finding {
	f := audit.Finding{
		Promise: 3, Name: "the attacks took place", How: "every attack came to something, or all of its connectors were still waiting for a place",
	}
	for _, s := range l.stretches {
		for _, one := range s.felt {
			f.Checked++
			if one.n == 0 && one.waits == 0 {
				violated(&f, "%s, in %q: %s", one.attack, s.name, one)
			}
		}
	}
	return f
}

// audited is the audit of everybody's history, the hostile owner's too. What looked at nothing is left out, unless it has to look here.
func (l *lab) audited(ctx context.Context) error {
	hostile, err := l.hostile(ctx)
	if err != nil {
		return err
	}
	findings, err := audit.Audit(ctx, l.Pool, audit.Options{
		FailAtWill: hostile, Caps: map[string]int{"file": places, "web": places, "google_drive": places, "onedrive": places, "teams": places},
	})
	if err != nil {
		return wrap("audit", err)
	}
	l.findings = append(l.findings, thatLooked(findings)...)
	return nil
}

// thatLooked leaves out what looked at nothing and need not, and adds what has to look and is not there.
func thatLooked(findings []audit.Finding) []audit.Finding {
	kept := slices.DeleteFunc(slices.Clone(findings), func(f audit.Finding) bool {
		return f.Checked == 0 && f.Violated == 0 && !slices.Contains(here, f.Name)
	})
	for _, name := range here {
		if !slices.ContainsFunc(kept, func(f audit.Finding) bool { return f.Name == name }) {
			kept = append(kept, audit.Finding{Name: name, How: "the audit has no such check any more"})
		}
	}
	return kept
}

// here are the audit's checks of what happens in every play: ordinary syncs and triggers under caps, and documents that are stored.
var here = []string{
	"no trigger is forgotten", "nothing is stuck", "one worker at a time", "no stale writer", "caps", "failures are the source's",
	"one verdict for each run", "every claim opens its run", "in flight is an open run", "complete means all stored", "nothing is left behind",
}

// hostile are all connectors that ever were, but the ordinary ones.
func (l *lab) hostile(ctx context.Context) (map[int32]bool, error) {
	rows, err := l.Pool.Query(ctx, `SELECT DISTINCT connector_id FROM chaos.configs WHERE connector_id <> ALL ($1)`, l.ids())
	if err != nil {
		return nil, wrap("look for the hostile connectors", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	all := map[int32]bool{}
	for _, id := range ids {
		all[id] = true
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("there was no hostile connector")
	}
	return all, wrap("look for the hostile connectors", err)
}
