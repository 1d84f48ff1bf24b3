package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/internal/freshness"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) lookRoutes() {
	register(a, identity.ConnectorStatus, http.MethodGet, "/connectors/{id}/status", "Show where a connector stands", http.StatusOK, a.connectorStatus)
	register(a, identity.GlanceConnectors, http.MethodGet, "/connectors/glance", "Tell where some connectors stand, in a sentence for each, with the latest runs of each", http.StatusOK, a.glance)
	register(a, identity.WhyConnector, http.MethodGet, "/connectors/{id}/why", "Tell why a connector is, or is not, running now, and what happens next", http.StatusOK, a.why)
	register(a, identity.PreviewSchedule, http.MethodGet, "/connectors/{id}/schedule/preview", "Show the slots of a connector's schedule and what becomes of each", http.StatusOK, a.previewSchedule)
	register(a, identity.ListDocuments, http.MethodGet, "/connectors/{id}/documents", "List the documents of a connector, by their names in the source", http.StatusOK, a.listDocuments)
	register(a, identity.FindDocuments, http.MethodGet, "/documents", "List the documents of all connectors that you see, by the numbers of these and their names in the source", http.StatusOK, a.findDocuments)
	register(a, identity.FailedDocuments, http.MethodGet, "/connectors/{id}/documents/failed", "Count the failed documents of a connector, by reason", http.StatusOK, a.failedDocuments)
}

// Status is where a connector stands: what a program asks for again and again.
type Status struct {
	Body struct {
		ID                 int32               `json:"id"`
		Status             string              `json:"status" enum:"PENDING,SYNCING,ACTIVE,ERROR,DISABLED"`
		StatusMessage      *string             `json:"status_message"`
		FailureCount       int32               `json:"failure_count"`
		LastSyncAt         *time.Time          `json:"last_sync_at"`
		NextSyncAt         *time.Time          `json:"next_sync_at"`
		DueReason          *string             `json:"due_reason"`
		PutOffSince        *time.Time          `json:"put_off_since"`
		TriggerRequestedAt *time.Time          `json:"trigger_requested_at"`
		RunID              *uuid.UUID          `json:"run_id" nullable:"true" doc:"The open run."`
		Freshness          freshness.Freshness `json:"freshness" doc:"Whether what is stored of it is as fresh as it should be."`
	}
}

func (a *API) connectorStatus(ctx context.Context, in *ByID) (*Status, error) {
	out := &Status{}
	err := a.byKey(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		c, err := q.ConnectorStatus(ctx, in.number())
		if errors.Is(err, pgx.ErrNoRows) {
			return problem.NotFound(fmt.Sprintf("connector %d", in.number()))
		}
		b := &out.Body
		b.ID, b.Status, b.StatusMessage, b.FailureCount, b.LastSyncAt, b.NextSyncAt = c.ID, c.Status, shownText(c.StatusMessage), c.FailureCount, utc(c.LastSyncAt), utc(c.NextSyncAt)
		b.Freshness = freshness.Of(freshness.Connector{
			FreshWithinMinutes: c.FreshWithinMinutes, LastSyncAt: c.LastSyncAt, SyncedVersion: c.SyncedVersion, ConfigVersion: c.ConfigVersion,
		}, c.SeenAt)
		b.DueReason, b.PutOffSince, b.TriggerRequestedAt, b.RunID = c.DueReason, utc(c.PutOffSince), utc(c.TriggerRequestedAt), c.RunID
		return err
	})
	return out, err
}

// Why is why a connector is where it is.
type Why struct {
	Body struct {
		ConnectorID int32               `json:"connector_id"`
		Name        string              `json:"name"`
		Type        string              `json:"type"`
		Status      string              `json:"status"`
		RunID       *uuid.UUID          `json:"run_id" nullable:"true" doc:"The open run."`
		WorkerID    *uuid.UUID          `json:"worker_id" nullable:"true" doc:"Which worker process has it."`
		Running     bool                `json:"running" doc:"Whether a service is at work on it."`
		Cause       string              `json:"cause" doc:"Why, for programs."`
		Why         string              `json:"why" doc:"Why, in a sentence."`
		Evidence    []string            `json:"evidence" doc:"What it is concluded from."`
		Next        string              `json:"next" doc:"What happens next, and who does it."`
		Freshness   freshness.Freshness `json:"freshness" doc:"Whether what is stored of it is as fresh as it should be."`
		Failed      *failures.Summary   `json:"failed" doc:"The documents that are failed now; null where they could not be counted in time."`
	}
}

var (
	errNATSAway   = errors.New("it does not answer")
	errNotCounted = errors.New("its failed documents could not be counted in time")
)

func (a *API) why(ctx context.Context, in *ByID) (*Why, error) {
	asked, away := a.streams.get(time.Now())
	gathered, err := evidence.GatherSeen(ctx, a.byKeyTx, asked, away, in.number(), a.config.Scheduler.Settings())
	if errors.Is(err, evidence.ErrNoConnector) {
		return nil, problem.NotFound(fmt.Sprintf("connector %d", in.number()))
	}
	if err != nil {
		return nil, err
	}
	// What did not answer, and how, is the operator's.
	for unknown, said := range map[*error]error{&gathered.Streams.Unknown: errNATSAway, &gathered.FailedUnknown: errNotCounted} {
		if *unknown != nil {
			a.log.Warn("an answer why a connector does not run is not whole", "request", requestOf(ctx).RequestID, "connector", in.number(), "err", *unknown)
			*unknown = said
		}
	}
	answer, out := evidence.Explain(gathered), &Why{}
	b := &out.Body
	b.ConnectorID, b.Name, b.Type, b.Status, b.RunID, b.WorkerID = answer.ConnectorID, answer.Name, answer.Type, answer.Status, answer.RunID, answer.WorkerID
	b.Running, b.Cause, b.Why, b.Next = answer.Running, string(answer.Cause), secret.Text(answer.Why), secret.Text(answer.Next)
	b.Evidence = make([]string, len(answer.Evidence))
	for i, fact := range answer.Evidence {
		b.Evidence[i] = secret.Text(fact)
	}
	b.Freshness, b.Failed = answer.Freshness, shownFailures(answer.Failed)
	return out, nil
}

func shownFailures(s *failures.Summary) *failures.Summary {
	if s == nil {
		return nil
	}
	shown := *s
	shown.Reasons = make([]failures.Reason, len(s.Reasons))
	for i, r := range s.Reasons {
		shown.Reasons[i] = failures.Reason{Reason: secret.Text(r.Reason), Documents: r.Documents}
	}
	return &shown
}

// Failures are the failed documents of a connector.
type Failures struct {
	Body failures.Summary
}

func (a *API) failedDocuments(ctx context.Context, in *ByID) (*Failures, error) {
	out := &Failures{}
	err := a.byKeyTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := isSeen(ctx, dbgen.New(tx), in.number()); err != nil {
			return err
		}
		found, err := failures.Seen(ctx, tx, in.number())
		out.Body = *shownFailures(&found)
		return err
	})
	return out, err
}

// isSeen says that a connector is not found, where its viewer does not see it.
func isSeen(ctx context.Context, q *dbgen.Queries, id int32) error {
	if sees, err := q.SeesConnector(ctx, id); err != nil || sees {
		return err
	}
	return problem.NotFound(fmt.Sprintf("connector %d", id))
}
