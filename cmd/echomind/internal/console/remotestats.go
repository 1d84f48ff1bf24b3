package console

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/sdk/client"
	"github.com/echomind/sync/sdk/lifecycle"
)

// remoteStatRuns is how many ended runs are counted through a server, which has to show each of them.
const remoteStatRuns = 100_000

// runTally counts runs of a connector, or of all, as the statement StatRuns does.
type runTally struct {
	dbgen.StatRunsRow
	took, queued []float64
}

func (t *runTally) add(r run) {
	status := lifecycle.Verdict(r.Status)
	if r.MissedCount != nil {
		if status == lifecycle.Missed {
			t.Missed += int64(*r.MissedCount)
		}
		return
	}
	t.Runs++
	switch status {
	case lifecycle.Completed:
		t.Completed++
	case lifecycle.Skipped:
		t.Skipped++
	case lifecycle.Failed:
		t.Failed++
	case lifecycle.Superseded:
		t.Superseded++
	}
	if r.PickedUpAt == nil {
		return
	}
	if status == lifecycle.Completed || status == lifecycle.Skipped || status == lifecycle.Failed {
		t.took = append(t.took, asSeconds(r.CompletedAt.Sub(*r.PickedUpAt)))
	}
	t.queued = append(t.queued, asSeconds(r.PickedUpAt.Sub(r.DueAt)))
}

// asSeconds is a time as Postgres has it, which counts microseconds.
func asSeconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// row is what was counted.
func (t *runTally) row() dbgen.StatRunsRow {
	row := t.StatRunsRow
	row.Took, row.Queued = halfAndMost(t.took), halfAndMost(t.queued)
	return row
}

// halfAndMost are the percentiles 50 and 95 as percentile_cont has them: between two values lies a part of what is between them.
func halfAndMost(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	at := func(share float64) float64 {
		place := share * float64(len(values)-1)
		below := math.Floor(place)
		low, high := values[int(below)], values[int(math.Ceil(place))]
		return low + (place-below)*(high-low)
	}
	return []float64{at(0.5), at(0.95)}
}

// statistics counts the runs that a server shows.
func (r *remote) statistics(ctx context.Context, chosen *runFilter, named []string, limit int) (s foundStatistics, _ error) {
	s.most = remoteStatRuns
	ids, err := numbersOf(named, func(text string) (int32, error) { return r.connectorID(ctx, text) })
	if err != nil {
		return s, err
	}
	if s.seen, err = r.fixed(ctx, chosen); err != nil {
		return s, err
	}
	s.begin(chosen)
	all, each := &runTally{}, map[int32]*runTally{}
	count := func(one run) {
		of := each[one.ConnectorID]
		if of == nil {
			of = &runTally{StatRunsRow: dbgen.StatRunsRow{ConnectorID: one.ConnectorID}}
			each[one.ConnectorID] = of
		}
		of.add(one)
		all.add(one)
	}
	for _, id := range ids {
		if err := r.endedOf(ctx, chosen, id, count); err != nil {
			return s, err
		}
	}
	if len(ids) == 0 {
		if s.LookedBackTo, err = r.endedOfAll(ctx, chosen, count); err != nil {
			return s, err
		}
	}
	rows := make([]dbgen.StatRunsRow, 0, len(each))
	for _, of := range each {
		rows = append(rows, of.row())
	}
	slices.SortFunc(rows, func(a, b dbgen.StatRunsRow) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.ConnectorID, b.ConnectorID))
	})
	if s.called, err = r.called(ctx, rows[:min(len(rows), limit)]); err != nil {
		return s, err
	}
	s.fill(append([]dbgen.StatRunsRow{all.row()}, rows...), limit)
	return s, nil
}

// endedOf counts the runs of a connector that have ended, of so many of the latest.
func (r *remote) endedOf(ctx context.Context, chosen *runFilter, id int32, count func(run)) error {
	p := client.ConnectorsRunsParams{Since: chosen.givenSince(), Until: chosen.givenUntil(), PageSize: new(int32(pageSize))}
	counted := 0
	_, err := readPages(ctx, "runs", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.ConnectorsRunsWithResponse(ctx, id, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(one remoteRun) bool {
		if one.CompletedAt != nil && chosen.takes(one.run) {
			count(one.run)
			counted++
		}
		return counted == maxStatRunsOf
	})
	if err != nil {
		return connectorError(id, fmt.Sprintf("count the runs of connector %d", id), err)
	}
	return nil
}

// endedOfAll counts the runs of all connectors that have ended, and says how far back it has looked, where that is not all.
func (r *remote) endedOfAll(ctx context.Context, chosen *runFilter, count func(run)) (back *time.Time, _ error) {
	p := client.RunsListParams{Type: one(chosen.types), UserID: chosen.owner, Since: chosen.givenSince(), Until: chosen.givenUntil(), PageSize: new(int32(pageSize))}
	looked := 0
	_, err := readPages(ctx, "runs", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.RunsListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(one remoteRun) bool {
		if one.CompletedAt == nil {
			return false
		}
		if looked++; looked > remoteStatRuns {
			return true
		}
		if back = utc(one.CompletedAt); chosen.takes(one.run) {
			count(one.run)
		}
		return false
	})
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	if looked <= remoteStatRuns {
		back = nil
	}
	return back, nil
}

// called is what the connectors of some counts are called; those that are gone are not.
func (r *remote) called(ctx context.Context, rows []dbgen.StatRunsRow) (connectorsNamed, error) {
	called := connectorsNamed{}
	add := func(c connector) {
		called[c.ID] = dbgen.ConnectorNamesRow{ID: c.ID, Name: c.Name, Type: c.Type, UserID: c.UserID}
	}
	if len(rows) > fewOpen {
		all, err := r.connectors(ctx, dbgen.ListConnectorsParams{})
		for _, c := range all.list {
			add(c)
		}
		return called, err
	}
	for _, row := range rows {
		c, _, err := r.connector(ctx, row.ConnectorID)
		switch {
		case notFound(err):
		case err != nil:
			return nil, err
		default:
			add(c)
		}
	}
	return called, nil
}
