package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/deadline"
	"github.com/echomind/sync/sdk/failpoint"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/wire"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	storeTimeout = 30 * time.Second
	queryTimeout = 5 * time.Second
	embedTimeout = 60 * time.Second
)

// errEmbedder says that the embedder gave no answer.
var errEmbedder = errors.New("the embedder is away")

func isWait(err error) bool {
	return errors.Is(err, errEmbedder) || errors.Is(err, errIndex) || postgres.Unavailable(err)
}

// process stores messages of one session, passes the checkpoints that are reached by that, and completes its run where
// that was the last of it. nil means that they may be acknowledged, also because the run is over and they are old news.
func (s *Semantic) process(ctx context.Context, group []delivery) error {
	session := group[0].session
	var items []*item
	var come progress
	for _, d := range group {
		completed, isCompleted := d.request.Body.(*internalpb.DocumentProcessRequest_Completed)
		if !isCompleted {
			items = append(items, newItem(d))
			continue
		}
		whole, err := s.recordCompleted(ctx, session, completed.Completed)
		if err != nil {
			return err
		}
		come.complete = come.complete || whole
	}
	if len(items) > 0 {
		if err := s.embed(ctx, items); err != nil {
			return err
		}
		began := time.Now()
		stored, err := s.storeItems(ctx, group[0].request, session, items)
		if err != nil {
			return err
		}
		failpoint.At("semantic.stored")
		s.metrics.storing.Observe(time.Since(began).Seconds())
		come.complete, come.checkpointed = come.complete || stored.complete, stored.checkpointed
		if s.index != nil {
			s.index.kick()
		}
	}
	return s.settle(ctx, session, come)
}

// settle does what is to be done about a run that has come this far: each in a transaction of its own, because a store
// locks nothing of the connector. It is done again at the latest when the service keeps house.
func (s *Semantic) settle(ctx context.Context, session uuid.UUID, come progress) error {
	switch {
	case come.complete && s.index != nil:
		s.index.kick(session) // it is completed when it can be found; nothing is stored later for it
		return nil
	case come.complete:
		return s.complete(ctx, session)
	case come.checkpointed:
		return s.advance(ctx, session)
	}
	return nil
}

func (s *Semantic) recordCompleted(ctx context.Context, session uuid.UUID, c *internalpb.SyncCompleted) (bool, error) {
	state, err := wire.JSON(c.NewState)
	if err != nil {
		return false, fmt.Errorf("new_state: %w", err)
	}
	whole, err := deadline.Get(ctx, "semantic.record_completed", queryTimeout,
		func(ctx context.Context) (bool, error) {
			return s.queries.RecordCompleted(ctx, dbgen.RecordCompletedParams{
				Session: session, Total: c.Total, NewState: state, ListingWhole: &c.ListingWhole,
				Unchanged: c.Unchanged, Reason: nonEmpty(c.Reason),
			})
		})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // the run is over
	}
	return whole, err
}

// complete completes a run of which everything is stored, once it can be found.
func (s *Semantic) complete(ctx context.Context, session uuid.UUID) error {
	ctx, span := s.servers.Tracer.Start(ctx, session, tracing.Complete)
	defer span.End()
	if s.index != nil {
		if err := s.index.BringRun(ctx, session); err != nil {
			span.Fail("not found yet")
			return err
		}
	}
	run, err := s.lifecycle.Complete(ctx, session)
	if errors.Is(err, lifecycle.ErrFenced) {
		span.Set(tracing.Outcome("fenced"))
		return nil
	}
	if err != nil {
		span.Fail("not completed yet")
	} else {
		span.Set(tracing.Verdict(string(run.Verdict)))
		s.metrics.verdicts.WithLabelValues(string(run.Verdict)).Inc()
		event := telemetry.Completed
		if run.Verdict == lifecycle.Skipped {
			event = telemetry.Skipped
		}
		telemetry.OfRun(s.log, run.ConnectorID, session.String(), run.Type).Info("the sync has ended", "event", event)
	}
	return err
}

// embed fills in the vectors before any transaction is open.
func (s *Semantic) embed(ctx context.Context, items []*item) error {
	var texts []string
	for _, it := range items {
		for _, c := range it.chunks() {
			failpoint.Poison(c.Text)
			texts = append(texts, c.Text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	ctx, span := s.servers.Tracer.Within(ctx, tracing.Embed, tracing.Texts(len(texts)))
	defer span.End()
	began := time.Now()
	vectors, err := deadline.Get(ctx, "semantic.embed", embedTimeout,
		func(ctx context.Context) ([][]float32, error) {
			if err := failpoint.Err("semantic.embedder"); err != nil {
				return nil, err
			}
			return s.embedder.Embed(ctx, texts)
		})
	if err == nil && len(vectors) != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", len(vectors), len(texts))
	}
	if err != nil {
		s.metrics.failures.Inc()
		span.Fail("no answer")
		return fmt.Errorf("%w: %w", errEmbedder, err)
	}
	s.metrics.texts.Add(float64(len(texts)))
	s.metrics.embedding.Observe(time.Since(began).Seconds())
	for _, it := range items {
		n := len(it.chunks())
		it.vectors, vectors = vectors[:n], vectors[n:]
	}
	return nil
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
