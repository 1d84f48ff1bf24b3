package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// tellChanged has connectors looked at whose chains were changed while somebody held them.
func (s *Scheduler) tellChanged(ctx context.Context) error {
	for after := int32(0); ; {
		last, err := deadline.Get(ctx, "scheduler.hand_on_changed", claimTimeout, func(ctx context.Context) (int32, error) {
			return s.queries.HandOnChanged(ctx, dbgen.HandOnChangedParams{AfterID: after, Batch: mostTold})
		})
		if err != nil || last == 0 {
			return wrap("tell whose chains were changed", err)
		}
		after = last
	}
}

func (s *Scheduler) ends(ctx context.Context, wide bool, behind place, batch int32) ([]dbgen.UpstreamsToTellRow, error) {
	ends, err := deadline.Get(ctx, "scheduler.upstreams_to_tell", queryTimeout, func(ctx context.Context) ([]dbgen.UpstreamsToTellRow, error) {
		return s.queries.UpstreamsToTell(ctx, dbgen.UpstreamsToTellParams{Wide: wide, AfterAt: behind.at, AfterID: behind.id, Batch: batch})
	})
	return ends, wrap("look who has ended before others", err)
}

// tellWide has those looked at who wait for connectors that have ended and that many run after: of a few of these, behind a place. It says of how many.
func (s *Scheduler) tellWide(ctx context.Context, behind *place) (int, error) {
	ends, err := s.ends(ctx, true, *behind, mostWideEnds)
	if err != nil {
		return 0, err
	}
	var problems []error
	told := 0
	for i, e := range ends {
		if told >= mostTold {
			return i, errors.Join(problems...)
		}
		*behind = place{e.TellAt, e.ConnectorID}
		n, err := s.tellOf(ctx, e)
		told, problems = told+n, append(problems, err)
	}
	return len(ends), errors.Join(problems...)
}

// tell has those looked at who wait for connectors that have ended and that few run after: of a page of these, behind a place. It says of how many.
func (s *Scheduler) tell(ctx context.Context, behind *place) (int, error) {
	ends, err := s.ends(ctx, false, *behind, mostEnds)
	if err != nil {
		return 0, err
	}
	var problems []error
	together := dbgen.HandOnAllParams{Few: fewTold}
	alone := map[int32]bool{}
	for _, e := range ends {
		*behind = place{e.TellAt, e.ConnectorID}
		if alone[e.ConnectorID] = e.Lost != nil; e.Lost == nil {
			together.Upstreams, together.Nos = append(together.Upstreams, e.ConnectorID), append(together.Nos, e.No)
		}
	}
	if len(together.Upstreams) > 0 {
		rest, err := deadline.Get(ctx, "scheduler.hand_on_all", claimTimeout, func(ctx context.Context) ([]int32, error) {
			return s.queries.HandOnAll(ctx, together)
		})
		if err != nil {
			rest = together.Upstreams
			problems = append(problems, wrap("tell who runs after connectors", err))
		}
		for _, id := range rest {
			alone[id] = true
		}
	}
	for _, e := range ends {
		if alone[e.ConnectorID] {
			_, err := s.tellOf(ctx, e)
			problems = append(problems, err)
		}
	}
	return len(ends), errors.Join(problems...)
}

// tellOf tells all who run after one connector and wait for it, and says how many. Those whose rows somebody holds are told later.
func (s *Scheduler) tellOf(ctx context.Context, e dbgen.UpstreamsToTellRow) (int, error) {
	held, told := []int32{}, 0
	for after := int32(0); ; {
		page, err := deadline.Get(ctx, "scheduler.hand_on", claimTimeout, func(ctx context.Context) (dbgen.HandOnRow, error) {
			return s.queries.HandOn(ctx, dbgen.HandOnParams{Upstream: e.ConnectorID, AfterID: after, Batch: mostTold})
		})
		if err != nil {
			return told, fmt.Errorf("tell who runs after connector %d: %w", e.ConnectorID, err)
		}
		held, told = append(held, page.Held...), told+int(page.Told)
		if page.Last == 0 {
			break
		}
		after = page.Last
	}
	err := deadline.Do(ctx, "scheduler.have_told", claimTimeout, func(ctx context.Context) error {
		return s.queries.HaveTold(ctx, dbgen.HaveToldParams{Upstream: e.ConnectorID, No: e.No, Lost: e.Lost, Since: e.TellAt, Held: held})
	})
	return told, wrap(fmt.Sprintf("write down that those who run after connector %d were told", e.ConnectorID), err)
}
