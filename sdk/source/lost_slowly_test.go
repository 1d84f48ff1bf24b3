//go:build !race

// One thing after another for minutes: there is no race to find.

package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// stockedWith is a place of so many things, and what a first sync stores of it.
func stockedWith(t *testing.T, n int) (*place, *workertest.Store) {
	p, store := newPlace(), workertest.New()
	p.page = 1000
	for i := range n {
		p.write(fmt.Sprintf("t%05d", i), fmt.Sprint("text ", i))
	}
	quiet(t, store, p)
	return p, store
}

func TestAPlaceThatIsAwayLosesNothingBitByBit(t *testing.T) {
	for _, n := range []int{300, 5000} {
		t.Run(fmt.Sprint(n, " and a sync between that finds nothing out"), func(t *testing.T) {
			p, store := stockedWith(t, n)
			p.hide()
			require.Equal(t, 1, tries(t, store, p, 2))
			require.Zero(t, tries(t, store, mute{p}, 1))
			tries(t, store, p, 20)
			require.Equal(t, n, texts(store))
		})
		t.Run(fmt.Sprint(n, " that had failed before"), func(t *testing.T) {
			p, store := stockedWith(t, n)
			for id := range p.things {
				p.set(id, func(t *thing) { t.damaged, t.version = "quota", p.next() })
			}
			quiet(t, store, p)
			for id := range p.things { // no change names it
				p.hidden[id] = true
			}
			tries(t, store, p, 30)
			require.Equal(t, n, texts(store))
		})
	}
}

func TestAnOwnerAllowsItOnce(t *testing.T) {
	for _, n := range []int{300, 5000} {
		p, store := stockedWith(t, n)
		p.hide()
		require.Equal(t, 1, tries(t, store, p, 2))
		store.Allows = true
		require.Zero(t, tries(t, store, p, 1))
		require.Empty(t, store.IDs())
	}
}

// No change names what is not there for some minutes.
func TestTwoTriesOfOneSyncLoseNothingThoughItsOwnerAllowsDeletions(t *testing.T) {
	p, store := stockedWith(t, 300)
	for i := range 90 {
		p.set(fmt.Sprintf("t%05d", i), func(t *thing) { t.text, t.version, t.damaged = "edited", p.next(), "quota" })
	}
	quiet(t, store, p)
	store.Allows = true
	for i := range 90 {
		p.hidden[fmt.Sprintf("t%05d", i)] = true
	}
	_, err := sync1(t.Context(), store, dying{p}, source.Options{})
	require.Error(t, err)
	quiet(t, store, p)
	require.Equal(t, 300, texts(store))
	quiet(t, store, p) // a sync has completed in between
	require.Less(t, texts(store), 300)
}

// As TestTwoTriesOfOneSyncLoseNothingThoughItsOwnerAllowsDeletions, but the sync before was refused its deletions (of other things): that is why the owner allows them.
func TestTwoTriesOfAnAllowedSyncLoseNothingThatTheRefusedOneFound(t *testing.T) {
	p, store := stockedWith(t, 300)
	gone := func(i int) string { return fmt.Sprintf("t%05d", i) }
	other := func(i int) string { return fmt.Sprintf("t%05d", 200+i) }
	for i := range 90 { // their earlier texts are stored, and found
		p.set(other(i), func(t *thing) { t.text, t.version, t.damaged = "edited", p.next(), "quota" })
	}
	quiet(t, store, p)
	for i := range 120 { // these are gone for good
		p.set(gone(i), func(t *thing) { t.version = p.next() })
		p.hidden[gone(i)] = true
	}
	quiet(t, store, p)
	_, err := sync1(t.Context(), store, p, source.Options{})
	require.ErrorIs(t, err, source.ErrDeletionsRefused)
	require.Equal(t, 300, texts(store))
	store.Allows = true // the owner allows that 120 go
	for i := range 90 { // for some minutes; no change names them
		p.hidden[other(i)] = true
	}
	_, err = sync1(t.Context(), store, dying{p}, source.Options{}) // its worker stops
	require.Error(t, err)
	require.False(t, errors.Is(err, source.ErrDeletionsRefused))
	_, err = sync1(t.Context(), store, p, source.Options{}) // the next try of the same sync, a minute later
	require.NoError(t, err)
	for i := range 90 { // they are there again
		delete(p.hidden, other(i))
	}
	store.Allows = false
	for range 4 {
		_, _ = sync1(t.Context(), store, p, source.Options{})
	}
	require.Equal(t, 180, len(store.IDs()))
}

// Their earlier texts are found. A new reader, or room, has them tried again while the place is away.
func TestWhatFailedOtherwiseIsNotLostBitByBit(t *testing.T) {
	for _, why := range []string{"no room", "content"} {
		t.Run(why, func(t *testing.T) {
			const n = 2000
			p, store := stockedWith(t, n)
			failing := map[string]bool{}
			for i := range n * 4 / 10 {
				id := fmt.Sprintf("t%05d", i)
				failing[id] = true
				p.set(id, func(t *thing) {
					t.text, t.version = "edited", p.next()
					if why == "content" {
						t.damaged, t.content = "broken", true
					}
				})
			}
			store.Refuses = func(d worker.Document) bool { return why == "no room" && failing[d.SourceID] }
			quiet(t, store, p)
			for id := range p.things { // no change names it
				p.hidden[id] = true
			}
			for range 10 {
				_, err := sync1(t.Context(), store, p, source.Options{Reading: "v2"})
				if !errors.Is(err, source.ErrDeletionsRefused) {
					require.NoError(t, err)
				}
			}
			require.GreaterOrEqual(t, len(store.IDs()), n*7/10)
		})
	}
}

// They are more than one sync looks at.
func TestVeryManyThatFailedAreNotLostBitByBit(t *testing.T) {
	const n = 70_000
	for _, c := range []struct {
		name   string
		hidden int // of all that failed, which is 31 %
		left   int
	}{
		{"a place that is away", n, n},
		{"a few that are gone", 300, n - 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, store := stockedWith(t, n)
			for i := range n * 31 / 100 {
				p.set(fmt.Sprintf("t%05d", i), func(t *thing) {
					t.text, t.version = "edited", p.next()
					t.damaged, t.content = "broken", true
				})
			}
			quiet(t, store, p)
			for i := range c.hidden {
				p.hidden[fmt.Sprintf("t%05d", i)] = true
			}
			for range 8 {
				_, err := sync1(t.Context(), store, p, source.Options{Reading: "v2"})
				if !errors.Is(err, source.ErrDeletionsRefused) {
					require.NoError(t, err)
				}
			}
			require.GreaterOrEqual(t, len(store.IDs()), c.left*99/100)
			if c.hidden < n {
				require.Less(t, len(store.IDs()), n)
			}
		})
	}
}

// Nothing of them has been missing.
func TestOneLostItemHasNotAllThatFailedLookedAt(t *testing.T) {
	const n = 4000
	p, store := stockedWith(t, n)
	failing := map[string]bool{}
	for i := range n * 4 / 10 {
		id := fmt.Sprintf("t%05d", i)
		failing[id] = true
		p.set(id, func(t *thing) { t.text, t.version = "edited", p.next() })
	}
	store.Refuses = func(d worker.Document) bool { return failing[d.SourceID] }
	quiet(t, store, p)
	for k := range 6 {
		id := fmt.Sprintf("t%05d", n-1-k)
		p.set(id, func(t *thing) { t.version = p.next() })
		p.hidden[id] = true
		before := len(p.looks)
		quiet(t, store, p)
		require.LessOrEqual(t, len(p.looks)-before, 2*source.DefaultAgain+10)
	}
	require.Less(t, len(store.IDs()), n)
}

// losing loses a itself, and does not find b when it is looked for.
type losing struct {
	a, b []string
	mode int // of the sync: 0 lists both, 1 cannot read b, 2 loses all
}

func (l *losing) item(id string) source.Item {
	return source.Item{ID: id, Title: "T", Version: "1", Memo: map[string]string{"f": "x"}, Read: func(context.Context) (source.Content, error) {
		return source.Content{Hash: "h" + id, Sections: []chunk.Section{{Text: "text " + id}}}, nil
	}}
}

func (l *losing) List(ctx context.Context, s *source.Sync) (any, error) {
	switch l.mode {
	case 0:
		s.BeginListing()
		for _, id := range append(append([]string{}, l.a...), l.b...) {
			if err := s.Item(ctx, l.item(id)); err != nil {
				return nil, err
			}
		}
	case 1:
		for _, id := range l.b {
			if err := s.Fail(ctx, l.item(id), source.Unreadable{Reason: "a quota"}); err != nil {
				return nil, err
			}
		}
	default:
		for _, id := range l.a {
			s.MarkLost(id)
		}
	}
	return cursor{Changes: 1}, nil
}

func (l *losing) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		if l.mode < 2 {
			continue
		}
		if _, err := s.MarkAway(ctx, source.Item{ID: id}); err != nil {
			return err
		}
	}
	return nil
}

// limited is a place that answers so many looks in a sync, and then asks to wait.
type limited struct {
	*place
	left int
}

func (l *limited) Look(ctx context.Context, s *source.Sync, ids []string) error {
	if l.left -= len(ids); l.left < 0 {
		return errors.New("the place asked us to wait for two hours")
	}
	return l.place.Look(ctx, s, ids)
}

func TestSyncsCompleteThoughMoreIsAwayThanThePlaceAnswersFor(t *testing.T) {
	for name, gone := range map[string]int{"nothing": 0, "less than it answers for": 400, "more": 700} {
		t.Run(name, func(t *testing.T) {
			const n, answers = 4000, 600
			p, store := stockedWith(t, n)
			failing := map[string]bool{}
			for i := range n * 4 / 10 {
				id := fmt.Sprintf("t%05d", i)
				failing[id] = true
				p.set(id, func(t *thing) { t.text, t.version = "edited", p.next() })
			}
			store.Refuses = func(d worker.Document) bool { return failing[d.SourceID] } // there is no room for what was edited
			quiet(t, store, p)
			for i := range gone {
				p.hidden[fmt.Sprintf("t%05d", i)] = true
			}
			p.hidden["t03999"] = true
			p.set("t03999", func(t *thing) { t.version = p.next() })
			completed := 0
			for range 40 {
				_, err := sync1(t.Context(), store, &limited{p, answers}, source.Options{})
				require.NotErrorIs(t, err, source.ErrDeletionsRefused)
				if err == nil {
					completed++
				}
			}
			require.Greater(t, completed, 10)
			require.InDelta(t, n-gone-1, len(store.IDs()), 50)
		})
	}
}

func TestWhatIsAllowedToGoGoesThoughThePlaceDoesNotAnswerForAllOfIt(t *testing.T) {
	const n, gone, answers = 1000, 800, 300
	p, store := stockedWith(t, n)
	for i := range gone {
		id := fmt.Sprintf("t%05d", i)
		p.hidden[id] = true
		p.set(id, func(t *thing) { t.version = p.next() })
	}
	for range 100 {
		store.Allows = true
		_, err := sync1(t.Context(), store, &limited{p, answers}, source.Options{Again: 50})
		if err == nil && len(store.IDs()) == n-gone {
			return
		}
	}
	require.Equal(t, n-gone, len(store.IDs()))
}

// What List loses, and what Look does not find, are refused together. The owner allows it: all of it goes, by one permission.
func TestOnePermissionIsEnoughForAllThatIsLost(t *testing.T) {
	l, store := &losing{}, workertest.New()
	for i := range 400 {
		l.a = append(l.a, fmt.Sprintf("a%03d", i))
	}
	for i := range 300 {
		l.b = append(l.b, fmt.Sprintf("b%03d", i))
	}
	for l.mode = range 2 {
		_, err := sync1(t.Context(), store, l, source.Options{})
		require.NoError(t, err)
	}
	l.mode = 2
	_, err := sync1(t.Context(), store, l, source.Options{})
	require.ErrorIs(t, err, source.ErrDeletionsRefused)
	store.Allows = true
	_, err = sync1(t.Context(), store, l, source.Options{})
	require.NoError(t, err)
	require.Empty(t, texts(store))
}

// A listing shows their changes, and they are not there when they are read.
func TestOnePermissionIsEnoughForAllThatIsListedAndNotThere(t *testing.T) {
	for _, n := range []int{120, 500, 5000} {
		p, store := stockedWith(t, 2*n)
		for i := range n {
			id := fmt.Sprintf("t%05d", i)
			p.set(id, func(t *thing) { t.version = p.next() })
			p.hidden[id] = true
		}
		p.stale = true
		quiet(t, store, p)
		require.Equal(t, 1, tries(t, store, p, 1))
		require.Len(t, store.IDs(), 2*n)
		store.Allows = true
		require.Zero(t, tries(t, store, p, 1))
		require.Len(t, store.IDs(), n)
	}
}

func TestSyncsThatComeNoFurtherLeaveTheStateThoughTheirOwnerAllowsDeletions(t *testing.T) {
	for _, allows := range []bool{false, true} {
		p, store := stockedWith(t, 300)
		for i := range 100 {
			id := fmt.Sprintf("t%05d", i)
			p.hidden[id] = true
			p.set(id, func(t *thing) { t.version = p.next() })
		}
		quiet(t, store, p)
		store.Allows = allows
		var states []string
		for range 12 {
			_, err := sync1(t.Context(), store, &limited{p, 0}, source.Options{Again: 20})
			require.ErrorContains(t, err, "asked us to wait")
			var at map[string]any
			require.NoError(t, store.State(&at))
			states = append(states, fmt.Sprint(at))
		}
		for _, at := range states[6:] {
			require.Equal(t, states[5], at)
		}
	}
}

func TestWhatWasRefusedAndHasNoVersionIsReadEachTime(t *testing.T) {
	store := workertest.New()
	store.Refuses = func(worker.Document) bool { return true }
	opts := source.Options{Unresumed: true}
	none := func(int) string { return "" }
	for range 3 {
		_, err := sync1(t.Context(), store, listAll(300, none, okRead), opts)
		require.NoError(t, err)
	}
	store.Refuses = func(d worker.Document) bool { return d.SourceID != "f0250" }
	reads := map[int]int{}
	small := func(i int) (source.Content, error) {
		reads[i]++
		return source.Content{Hash: fmt.Sprint("new", i), Sections: []chunk.Section{{Text: "x"}}}, nil
	}
	opts.Workers = 1
	_, err := sync1(t.Context(), store, listAll(300, none, small), opts)
	require.NoError(t, err)
	require.Len(t, reads, 300)
}
