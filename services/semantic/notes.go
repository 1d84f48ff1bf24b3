package semantic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/echomind/sync/proto/gen/internalpb"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/wire"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// progress is how far a run has come with what was just stored of it.
type progress struct {
	complete     bool // everything is stored
	checkpointed bool // a checkpoint waits
}

// note is a message that carries no document of its own: a checkpoint, or documents that were only seen.
type note struct {
	checkpoint *internalpb.SyncCheckpoint
	seen       *internalpb.DocumentsSeen
}

// unnamed says whether the item was given up without anybody knowing whose document it carried. A checkpoint carried none.
func (it *item) unnamed() bool {
	return it.poison != "" && it.sourceID == "" && (it.note == nil || it.note.checkpoint == nil)
}

// mark is what the item's document bears once it is stored; 0 for one that no listing showed.
func (it *item) mark() int64 {
	if it.part == nil {
		return 0
	}
	return wire.SeenMark(it.part.Listing, it.firstNo)
}

// writeNotes keeps the checkpoints among the items and marks the documents that were seen, and says how many notes there
// are. One that was given up is only counted.
func (t *storing) writeNotes(ctx context.Context, items []*item) (written int64, err error) {
	marks := map[string]int64{}
	for _, it := range items {
		if it.note == nil {
			continue
		}
		written++
		switch {
		case it.poison != "":
		case it.note.checkpoint != nil:
			state, err := wire.JSON(it.note.checkpoint.State)
			if err == nil {
				err = t.q.KeepCheckpoint(ctx, dbgen.KeepCheckpointParams{Session: t.session, No: it.no, State: state})
			}
			if err != nil {
				return written, fmt.Errorf("keep checkpoint %d: %w", it.no, err)
			}
		default:
			for _, id := range it.note.seen.SourceIds {
				marks[id] = max(marks[id], wire.SeenMark(it.note.seen.Listing, it.no))
			}
		}
	}
	if len(marks) == 0 {
		return written, nil
	}
	seen := dbgen.MarkSeenParams{ConnectorID: t.connectorID, Session: t.session}
	for id, mark := range marks {
		seen.SourceIds, seen.Marks = append(seen.SourceIds, id), append(seen.Marks, mark)
	}
	if err := t.q.MarkSeen(ctx, seen); err != nil {
		return written, fmt.Errorf("mark seen documents: %w", err)
	}
	return written, nil
}

// advance passes the checkpoints of a run before which everything is stored.
func (s *Semantic) advance(ctx context.Context, session uuid.UUID) error {
	advanced, err := s.lifecycle.Advance(ctx, session)
	if errors.Is(err, lifecycle.ErrFenced) {
		return nil
	}
	if advanced && err == nil {
		s.metrics.checkpoints.Inc()
	}
	return err
}

// AdvanceStored passes the checkpoints of every open run before which everything is stored.
func (s *Semantic) AdvanceStored(ctx context.Context) error {
	runs, err := s.lifecycle.CheckpointedRuns(ctx)
	if err != nil {
		return fmt.Errorf("ask for runs with checkpoints: %w", err)
	}
	return s.ofEach(runs, "advance", func(session uuid.UUID) error { return s.advance(ctx, session) })
}

// ofEach does something of each of several runs. One that cannot be moved holds up no other.
func (s *Semantic) ofEach(runs []uuid.UUID, what string, do func(uuid.UUID) error) error {
	var problems []error
	waits := 0
	for _, session := range runs {
		err := do(session)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s run %s: %w", what, session, err))
		}
		if isWait(err) {
			waits++
		}
		if waits > 1 {
			break // one may be locked; after two it is Postgres, and each of the others would take a deadline of its own
		}
	}
	return errors.Join(problems...)
}

func checkSeen(number int64, seen *internalpb.DocumentsSeen) error {
	if number < 1 || seen.GetListing() < 1 {
		return fmt.Errorf("documents seen have number %d and listing %d: both are at least 1", number, seen.GetListing())
	}
	for _, id := range seen.SourceIds {
		if err := checkSourceID(id); err != nil {
			return err
		}
	}
	return nil
}

// sortedMarks are the documents of items, in the order in which their rows are locked, each with its best mark.
func sortedMarks(items []*item) (ids []string, marks []int64) {
	best := map[string]int64{}
	for _, it := range items {
		if it.sourceID == "" {
			continue
		}
		if _, has := best[it.sourceID]; !has {
			ids = append(ids, it.sourceID)
		}
		best[it.sourceID] = max(best[it.sourceID], it.mark())
	}
	slices.Sort(ids)
	for _, id := range ids {
		marks = append(marks, best[id])
	}
	return ids, marks
}
