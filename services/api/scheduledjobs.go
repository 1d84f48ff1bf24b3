package api

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// mostOfName is how many jobs of one name are told apart.
const mostOfName = 10

// ScheduledJobPage is one page of jobs.
type ScheduledJobPage struct {
	Body struct {
		ScheduledJobs []Connector `json:"scheduled_jobs"`
		NextPageToken *string     `json:"next_page_token" doc:"Null where there are no more. A page may have fewer jobs than asked for, and a next one."`
	}
}

// jobPlace is behind which job a page begins.
type jobPlace struct {
	Name string `json:"n"`
	ID   int32  `json:"i"`
}

func (a *API) listScheduledJobs(ctx context.Context, in *LongPaging) (*ScheduledJobPage, error) {
	at, out := jobPlace{}, &ScheduledJobPage{}
	next, err := a.place(ctx, in.PageToken, "scheduled jobs", &at)
	if err != nil {
		return nil, err
	}
	var found []dbgen.ApiConnector
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		from := at
		var more bool
		found, more, err = filled(in.most(), mostBytes, func(c dbgen.ApiConnector) int { return len(c.Config) }, func(rows int32, behind *dbgen.ApiConnector) ([]dbgen.ApiConnector, error) {
			if behind != nil {
				from = jobPlace{behind.Name, behind.ID}
			}
			return q.ListScheduledJobs(ctx, dbgen.ListScheduledJobsParams{After: from.Name, AfterID: from.ID, Page: rows})
		})
		if err == nil && more {
			last := found[len(found)-1]
			out.Body.NextPageToken = next(jobPlace{last.Name, last.ID})
		}
		return err
	})
	out.Body.ScheduledJobs = make([]Connector, len(found))
	for i, c := range found { // masked once the connection is given back
		out.Body.ScheduledJobs[i] = viewConnector(c)
	}
	return out, err
}

// ByName names one job.
type ByName struct {
	Name string `path:"name" minLength:"1" maxLength:"200" doc:"A job's name. Several of one name are told apart by their numbers, below /api/v1/connectors."`
}

// OnceByName is a change of a job that is done once.
type OnceByName struct {
	ByName
	Once
}

// job is the number of the job of a name that the viewer sees.
func (a *API) job(ctx context.Context, by ByName) (ByID, error) {
	var ids []int32
	none := problem.NotFound(fmt.Sprintf("scheduled job %q", by.Name))
	if strings.ContainsRune(by.Name, 0) || !utf8.ValidString(by.Name) {
		return ByID{}, none
	}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		ids, err = q.JobsNamed(ctx, dbgen.JobsNamedParams{Name: by.Name, Page: mostOfName + 1})
		return err
	})
	switch {
	case err != nil:
		return ByID{}, err
	case len(ids) == 0:
		return ByID{}, none
	case len(ids) > 1:
		all := make([]string, 0, len(ids))
		for _, id := range ids[:min(len(ids), mostOfName)] {
			all = append(all, strconv.Itoa(int(id)))
		}
		if len(ids) > mostOfName {
			all = append(all, "and others")
		}
		return ByID{}, problem.Conflict(fmt.Sprintf("Several jobs are called %q: connectors %s.", by.Name, strings.Join(all, ", ")),
			"Take the one that you mean by its number, at /api/v1/connectors/{id}, or give it another name there.")
	}
	return ByID{int64(ids[0])}, nil
}

// ofJob does to the job of a name what is done to a connector of a number.
func ofJob[I, O any](ctx context.Context, a *API, by ByName, do func(context.Context, *I) (*O, error), in func(ByID) I) (*O, error) {
	id, err := a.job(ctx, by)
	if err != nil {
		return nil, err
	}
	asked := in(id)
	return do(ctx, &asked)
}

func (a *API) getScheduledJob(ctx context.Context, in *ByName) (*OneConnector, error) {
	return ofJob(ctx, a, *in, a.getConnector, func(id ByID) GetConnector { return GetConnector{ByID: id} })
}

// UpdateScheduledJob is what to change of a job.
type UpdateScheduledJob struct {
	ByName
	Matching
	Body ConnectorPatch
}

func (a *API) updateScheduledJob(ctx context.Context, in *UpdateScheduledJob) (*OneConnector, error) {
	return ofJob(ctx, a, in.ByName, a.updateConnector, func(id ByID) UpdateConnector {
		return UpdateConnector{Versioned{id, in.Matching}, in.Body}
	})
}

func (a *API) enableScheduledJob(ctx context.Context, in *OnceByName) (*OneConnector, error) {
	return ofJob(ctx, a, in.ByName, a.enableConnector, func(id ByID) OnceByID { return OnceByID{id, in.Once} })
}

func (a *API) disableScheduledJob(ctx context.Context, in *OnceByName) (*OneConnector, error) {
	return ofJob(ctx, a, in.ByName, a.disableConnector, func(id ByID) OnceByID { return OnceByID{id, in.Once} })
}

// TriggerScheduledJob asks for a run of a job.
type TriggerScheduledJob struct {
	OnceByName
	Body *SyncRequest
}

func (a *API) triggerScheduledJob(ctx context.Context, in *TriggerScheduledJob) (*Asked, error) {
	return ofJob(ctx, a, in.ByName, a.syncConnector, func(id ByID) SyncConnector {
		return SyncConnector{OnceByID{id, in.Once}, in.Body}
	})
}
