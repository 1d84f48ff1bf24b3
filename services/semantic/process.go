package semantic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/internal/tracing"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	storeTimeout = 30 * time.Second
	queryTimeout = 5 * time.Second
	embedTimeout = 60 * time.Second
	// embedTexts is how many texts are embedded in one call, so that a slow embedder still answers within the deadline.
	embedTexts = 500
)

// errEmbedder says that the embedder gave no answer.
var errEmbedder = errors.New("the embedder is away")

var (
	// errRefused says that a message contradicts its run. Repeating it does not help: it is given up at once.
	errRefused = errors.New("the message is refused")
	// errEnvelope says that a message names another connector or configuration than its run.
	errEnvelope = fmt.Errorf("%w: it is not of its run", errRefused)
)

func isWait(err error) bool {
	if errors.Is(err, errSlow) {
		return false
	}
	return errors.Is(err, errEmbedder) || errors.Is(err, errIndex) || postgres.Unavailable(err)
}

// isHeld says that another transaction holds rows that a message needs. The message is handed back, and its worker goes on with
// others.
func isHeld(err error) bool {
	return postgres.Locked(err) || errors.Is(err, lifecycle.ErrHeld)
}

// process stores messages of one try, advances the cursor to checkpoints that are reached now, and completes the run with its last
// message. nil means that the messages may be acknowledged, also because the run is over.
func (s *Semantic) process(ctx context.Context, group []delivery) error {
	try := group[0].try
	var items []*item
	var ends []delivery
	var reached progress
	for _, d := range group {
		if d.request.GetCompleted() != nil {
			ends = append(ends, d)
		} else {
			items = append(items, newItem(d))
		}
	}
	if len(items) > 0 {
		if err := s.embed(ctx, items); err != nil {
			return err
		}
		began := time.Now()
		for _, together := range splitBeforeTouches(items) {
			var err error
			if reached, err = s.storeInParts(ctx, try, together); err != nil {
				return err
			}
		}
		failpoint.At("semantic.stored")
		s.metrics.storing.Observe(time.Since(began).Seconds())
		if s.index != nil {
			s.index.notify()
		}
	}
	// Sync completed is handled after the documents that came with it, so that a total that contradicts them is refused.
	for _, d := range ends {
		whole, err := s.recordCompleted(ctx, d, d.request.GetCompleted())
		if err != nil {
			return err
		}
		reached.complete = reached.complete || whole
	}
	return s.completeOrAdvance(ctx, try.Run, reached)
}

// storeInParts stores items together, or in halves where they replace too many chunks for one transaction.
func (s *Semantic) storeInParts(ctx context.Context, try lifecycle.Try, items []*item) (progress, error) {
	reached, err := s.storeItems(ctx, try, items)
	if !errors.Is(err, errLarge) {
		return reached, err
	}
	half := len(items) / 2
	if _, err = s.storeInParts(ctx, try, items[:half]); err != nil {
		return progress{}, err
	}
	return s.storeInParts(ctx, try, items[half:])
}

// splitBeforeTouches cuts items, in the order of their numbers, before each touch of a document that an earlier item brings: the
// content that it keeps must be stored first.
func splitBeforeTouches(items []*item) (groups [][]*item) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.no, b.no) })
	begin, brought := 0, map[string]bool{}
	for i, it := range items {
		if it.part != nil && it.part.KeepChunks && brought[it.sourceID] {
			groups = append(groups, items[begin:i])
			begin = i
			clear(brought)
		}
		brought[it.sourceID] = it.sourceID != ""
	}
	return append(groups, items[begin:])
}

// completeOrAdvance completes a run, or advances its cursor, in a transaction of its own, because a store locks nothing of the
// connector. The maintenance repeats it. An error here is therefore no error of the message, whose content is stored; only a wait
// is returned.
func (s *Semantic) completeOrAdvance(ctx context.Context, run uuid.UUID, reached progress) error {
	var err error
	switch {
	case reached.complete && s.index != nil:
		s.index.notify(run) // it is completed once its documents can be found
	case reached.complete:
		err = s.complete(ctx, run)
	case reached.checkpointWaits:
		err = s.advance(ctx, run)
	}
	if err == nil || isWait(err) || ctx.Err() != nil {
		return err
	}
	s.log.Warn("a run could not be moved; it is tried again", "session", run, "err", err)
	return nil
}

// recordCompleted records sync completed, once, and says whether everything is stored.
func (s *Semantic) recordCompleted(ctx context.Context, d delivery, c *internalpb.SyncCompleted) (whole bool, err error) {
	state, err := wire.JSON(c.NewState)
	if err != nil {
		return false, fmt.Errorf("new_state: %w", err)
	}
	err = deadline.Do(ctx, "semantic.record_completed", queryTimeout, func(ctx context.Context) error {
		return postgres.TxBounded(ctx, s.servers.Pool, s.held.bounds(d.try.Run), func(tx pgx.Tx) error {
			q := s.queries.WithTx(tx)
			run, err := q.LockRun(ctx, dbgen.LockRunParams{RunID: d.try.Run, TryID: d.try.ID})
			if errors.Is(err, pgx.ErrNoRows) {
				whole = false
				return nil // the run is over, or another try's
			}
			if err == nil {
				err = checkEnvelope(d.request, run.ConnectorID, run.ConfigVersion)
			}
			if whole = run.Whole; err != nil || run.Total != nil {
				return err // a second sync completed changes nothing
			}
			// This is read after the run is locked: no store is under way that could count a higher number.
			highest, err := q.HighestNumber(ctx, d.try.ID)
			if err == nil && c.Total < max(highest, run.Stored) {
				err = fmt.Errorf("%w: total %d, but number %d is stored already", errRefused, c.Total, highest)
			}
			if err != nil {
				return err
			}
			whole, err = q.RecordCompleted(ctx, dbgen.RecordCompletedParams{
				RunID: d.try.Run, TryID: d.try.ID, Total: c.Total, NewState: state, ListingWhole: &c.ListingWhole,
				Unchanged: c.Unchanged, Reason: nonEmpty(c.Reason),
			})
			return err
		})
	})
	return whole && err == nil, err
}

// checkEnvelope compares the connector and configuration that a message names with those of its run. A message may leave out the
// configuration.
func checkEnvelope(m *internalpb.DocumentProcessRequest, connector int32, version int64) error {
	if m.ConnectorId != connector {
		return fmt.Errorf("%w: connector_id %d, the run is of connector %d", errEnvelope, m.ConnectorId, connector)
	}
	if m.ConfigVersion != 0 && m.ConfigVersion != version {
		return fmt.Errorf("%w: config_version %d, the run has %d", errEnvelope, m.ConfigVersion, version)
	}
	return nil
}

// complete completes a run whose documents are all stored, and can be found where there is an index. Where another transaction holds the connector,
// the look for stored runs does it later.
func (s *Semantic) complete(ctx context.Context, run uuid.UUID) error {
	ctx, span := s.servers.Tracer.Start(ctx, run, tracing.Complete)
	defer span.End()
	ended, err := s.lifecycle.Complete(ctx, run)
	switch {
	case errors.Is(err, lifecycle.ErrFenced):
		span.Set(tracing.Outcome("fenced"))
		return nil
	case errors.Is(err, lifecycle.ErrHeld):
		span.Set(tracing.Outcome("held"))
		return nil
	case err != nil && errors.Is(ctx.Err(), context.Canceled): // the service stops: another one completes it
		span.Set(tracing.Outcome("handed back"))
		return err
	case err != nil:
		span.Fail("not completed yet")
		return err
	}
	span.Set(tracing.Verdict(string(ended.Verdict)))
	s.metrics.verdicts.WithLabelValues(string(ended.Verdict)).Inc()
	log := telemetry.OfRun(s.log, ended.ConnectorID, run.String(), ended.Type)
	switch ended.Verdict {
	case lifecycle.Failed: // its worker ended it because it took too long
		span.Fail(string(lifecycle.TookTooLong))
		log.Warn("the sync failed", "event", telemetry.Failed, "reason", string(lifecycle.TookTooLong))
	case lifecycle.Superseded: // its worker ended it because the source asked us to wait
		log.Info("the sync is put off, and what it has sent is stored", "reason", string(lifecycle.Postponed))
	case lifecycle.Skipped:
		log.Info("the sync has ended", "event", telemetry.Skipped)
	default:
		log.Info("the sync has ended", "event", telemetry.Completed)
	}
	return nil
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
	vectors := make([][]float32, 0, len(texts))
	for some := range slices.Chunk(texts, embedTexts) {
		more, err := s.vectors(ctx, some)
		if err != nil {
			s.metrics.failures.Inc()
			span.Fail("no answer")
			return fmt.Errorf("%w: %w", errEmbedder, err)
		}
		vectors = append(vectors, more...)
	}
	for _, it := range items {
		n := len(it.chunks())
		it.vectors, vectors = vectors[:n], vectors[n:]
	}
	return nil
}

// vectors asks the embedder once.
func (s *Semantic) vectors(ctx context.Context, texts []string) ([][]float32, error) {
	began := time.Now()
	vectors, err := deadline.Get(ctx, "semantic.embed", embedTimeout, func(ctx context.Context) ([][]float32, error) {
		if err := failpoint.Err("semantic.embedder"); err != nil {
			return nil, err
		}
		return s.embedder.Embed(ctx, texts)
	})
	if err == nil && len(vectors) != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", len(vectors), len(texts))
	}
	if err != nil {
		return nil, err
	}
	s.metrics.texts.Add(float64(len(texts)))
	s.metrics.embedding.Observe(time.Since(began).Seconds())
	return vectors, nil
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
