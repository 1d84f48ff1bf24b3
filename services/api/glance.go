package api

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

// GlanceConnectors is which connectors to look at.
type GlanceConnectors struct {
	IDs  []int64 `query:"ids" required:"true" minItems:"1" maxItems:"100" nullable:"false" doc:"Their numbers, separated by commas. Those that you do not see are left out."`
	Runs int64   `query:"runs" minimum:"0" maximum:"30" default:"30" format:"int32" doc:"How many of its latest runs each is to have at most."`
}

// Glance is where a connector stands, in few words.
type Glance struct {
	ConnectorID int32       `json:"connector_id"`
	Name        string      `json:"name"`
	Cause       string      `json:"cause" doc:"Why, for programs; of one that is due or waits for a worker /why says more."`
	Why         string      `json:"why" doc:"Why, in a sentence."`
	Runs        []GlanceRun `json:"runs" doc:"Its latest runs, the latest first, up to 30. A range of missed slots is one."`
}

// GlanceRun is what a glance has of a run.
type GlanceRun struct {
	ID          uuid.UUID  `json:"id"`
	Trigger     string     `json:"trigger"`
	Status      string     `json:"status" enum:"running,completed,skipped,failed,superseded,missed"`
	Reason      *string    `json:"reason"`
	Slot        *time.Time `json:"slot"`
	SlotLast    *time.Time `json:"slot_last"`
	MissedCount *int32     `json:"missed_count"`
	DueAt       time.Time  `json:"due_at"`
	StartedAt   time.Time  `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
}

// Glances are some of them, by number.
type Glances struct {
	Body struct {
		Glances []Glance `json:"glances"`
	}
}

func (a *API) glance(ctx context.Context, in *GlanceConnectors) (*Glances, error) {
	var ids []int32
	for _, id := range in.IDs {
		if number := int32(id); int64(number) == id { // what is larger is nobody's
			ids = append(ids, number)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var found []evidence.Evidence
	var runs []dbgen.LatestRunsRow
	err := a.byKeyTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if found, err = evidence.GlanceSeen(ctx, tx, ids, a.config.Scheduler.Settings()); err != nil {
			return err
		}
		runs, err = dbgen.New(tx).LatestRuns(ctx, dbgen.LatestRunsParams{Ids: ids, Most: int32(in.Runs)})
		return err
	})
	if err != nil {
		return nil, err
	}
	of := map[int32][]GlanceRun{}
	for _, r := range runs {
		of[*r.ConnectorID] = append(of[*r.ConnectorID], GlanceRun{
			ID: *r.ID, Trigger: *r.Trigger, Status: *r.Status, Reason: r.Reason, Slot: utc(r.Slot), SlotLast: utc(r.SlotLast), MissedCount: r.MissedCount,
			DueAt: r.DueAt.UTC(), StartedAt: r.StartedAt.UTC(), CompletedAt: utc(r.CompletedAt),
		})
	}
	out := &Glances{}
	out.Body.Glances = make([]Glance, len(found))
	for i, e := range found {
		answer := evidence.Explain(e)
		out.Body.Glances[i] = Glance{ConnectorID: answer.ConnectorID, Name: answer.Name, Cause: string(answer.Cause), Why: secret.Text(answer.Why), Runs: append([]GlanceRun{}, of[answer.ConnectorID]...)}
	}
	slices.SortFunc(out.Body.Glances, func(a, b Glance) int { return int(a.ConnectorID - b.ConnectorID) })
	return out, nil
}
