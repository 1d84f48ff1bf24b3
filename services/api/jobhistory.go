package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// mostCounted is how many lines of the ledger the statistics of a job are of.
const mostCounted = 10_000

// ScheduledJobHistory is how the history of a job is asked for.
type ScheduledJobHistory struct {
	ByName
	Days   int64  `query:"days" minimum:"1" maximum:"90" default:"7" format:"int32" doc:"What the statistics are of: what ended in so many days until now."`
	Status string `query:"status" enum:"running,completed,skipped,failed,superseded,missed" doc:"Only such runs are listed; the statistics are of all."`
	Paging
}

// JobStatistics say what became of a job's slots and runs. A line of the ledger that stands for several slots counts each of them.
type JobStatistics struct {
	Since           time.Time  `json:"since"`
	Until           time.Time  `json:"until"`
	LookedBackTo    *time.Time `json:"looked_back_to" doc:"Where there are more than 10,000 lines of the ledger, the latest 10,000 are counted: those that began since then."`
	Total           int64      `json:"total" doc:"All that follow: successful, skipped, failed, superseded, missed."`
	Successful      int64      `json:"successful" doc:"Runs that completed."`
	Skipped         int64      `json:"skipped" doc:"Slots that a condition, a calendar, a blackout window or another policy passed over, and runs that found nothing to do."`
	Failed          int64      `json:"failed" doc:"Runs that failed, each try, and conditions that could not be asked."`
	Superseded      int64      `json:"superseded" doc:"Runs that were cancelled, or ended by a change."`
	Missed          int64      `json:"missed" doc:"Slots that were too late."`
	SuccessRate     *float64   `json:"success_rate" doc:"The share of successful ones among those and failed ones, 0 to 1; null where there are none."`
	ConditionsMet   *int64     `json:"conditions_met" doc:"Runs that its condition let go; null where it names none now."`
	ConditionsUnmet *int64     `json:"conditions_unmet" doc:"Slots that the condition which it names now was not met for."`
}

// JobHistory is what became of a job.
type JobHistory struct {
	Body struct {
		ConnectorID   int32         `json:"connector_id"`
		Statistics    JobStatistics `json:"statistics"`
		Runs          []SyncRun     `json:"runs" doc:"The latest begun first, however old."`
		NextPageToken *string       `json:"next_page_token" doc:"Null where there are no more. A page may have fewer runs than asked for, and a next one."`
	}
}

func (a *API) scheduledJobHistory(ctx context.Context, in *ScheduledJobHistory) (*JobHistory, error) {
	id, err := a.job(ctx, in.ByName)
	if err != nil {
		return nil, err
	}
	runs, err := a.connectorRuns(ctx, &ConnectorRuns{ByID: id, Status: in.Status, Paging: in.Paging})
	if err != nil {
		return nil, err
	}
	out := &JobHistory{}
	out.Body.ConnectorID, out.Body.Runs, out.Body.NextPageToken = id.number(), runs.Body.Runs, runs.Body.NextPageToken
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		now, err := q.Now(ctx)
		if err != nil {
			return err
		}
		since := now.Add(-time.Duration(in.Days) * 24 * time.Hour)
		found, err := q.JobStatistics(ctx, dbgen.JobStatisticsParams{ID: id.number(), Since: since, Most: mostCounted})
		if errors.Is(err, pgx.ErrNoRows) {
			return problem.NotFound(fmt.Sprintf("scheduled job %q", in.Name))
		}
		out.Body.Statistics = statisticsOf(found)
		out.Body.Statistics.Since, out.Body.Statistics.Until = since.UTC(), now.UTC()
		return err
	})
	return out, err
}

func statisticsOf(r dbgen.JobStatisticsRow) JobStatistics {
	s := JobStatistics{
		LookedBackTo: utc(r.AsFarAs), Total: r.Completed + r.Skipped + r.Failed + r.Superseded + r.Missed, Successful: r.Completed, Skipped: r.Skipped, Failed: r.Failed,
		Superseded: r.Superseded, Missed: r.Missed, ConditionsMet: r.ConditionsMet, ConditionsUnmet: r.ConditionsUnmet,
	}
	if judged := r.Completed + r.Failed; judged > 0 {
		s.SuccessRate = new(float64(r.Completed) / float64(judged))
	}
	return s
}
