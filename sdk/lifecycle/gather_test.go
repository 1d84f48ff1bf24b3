package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/testkit"
)

// asked is a gather whose calls wait for the test.
type asked struct {
	*gather[int, string]
	t      *testing.T
	mu     sync.Mutex
	calls  [][]int
	let    chan struct{} // one for each call
	alone  []int
	fails  func(all []int) error
	away   error // what comes of the small question
	probes int   // how often it was put
	skips  func(int) bool
}

func newAsked(t *testing.T) *asked {
	t.Helper()
	a := &asked{t: t, let: make(chan struct{}, 100), skips: func(int) bool { return false }, fails: func([]int) error { return nil }}
	a.gather = &gather[int, string]{
		most:  3,
		alike: func(x, y int) bool { return x/100 == y/100 },
		together: func(ctx context.Context, all []int) ([]*string, error) {
			a.mu.Lock()
			a.calls = append(a.calls, all)
			a.mu.Unlock()
			select {
			case <-a.let:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			answers := make([]*string, len(all))
			for i, n := range all {
				if !a.skips(n) {
					text := fmt.Sprint("together ", n)
					answers[i] = &text
				}
			}
			return answers, a.fails(all)
		},
	}
	a.answers = func(context.Context) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.probes++
		return a.away
	}
	a.gather.alone = func(_ context.Context, n int) (string, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.alone = append(a.alone, n)
		return fmt.Sprint("alone ", n), nil
	}
	return a
}

// letAll lets every call be answered.
func (a *asked) letAll() { close(a.let) }

// until waits until so many calls are under way, or were, and so many wait.
func (a *asked) until(calls, waiting int) {
	a.t.Helper()
	testkit.Eventually(a.t, time.Minute, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.gather.mu.Lock()
		defer a.gather.mu.Unlock()
		if len(a.calls) != calls || len(a.waiting) != waiting {
			return fmt.Errorf("%d calls, %d wait", len(a.calls), len(a.waiting))
		}
		return nil
	})
}

// begin asks in turn, each when the one before waits, and returns their answers at the end.
func (a *asked) begin(numbers ...int) (end func() []string) {
	a.t.Helper()
	var all sync.WaitGroup
	answers := make([]string, len(numbers))
	for i, n := range numbers {
		all.Go(func() {
			answer, err := a.ask(context.Background(), n)
			if err != nil {
				answer = err.Error()
			}
			answers[i] = answer
		})
		a.until(1, i)
	}
	return func() []string { all.Wait(); return answers }
}

func TestThoseWhoAskWhileACallIsUnderWayGoTogetherInTheNext(t *testing.T) {
	a := newAsked(t)
	end := a.begin(1, 2, 3, 4, 5)
	a.letAll()
	require.Equal(t, []string{"together 1", "together 2", "together 3", "together 4", "together 5"}, end())
	require.Equal(t, [][]int{{1}, {2, 3, 4}, {5}}, a.calls)
	a.rests()
	answer, err := a.ask(context.Background(), 6)
	require.NoError(t, err)
	require.Equal(t, "together 6", answer)
}

func TestThoseWhoDifferGoApart(t *testing.T) {
	a := newAsked(t)
	end := a.begin(1, 2, 100, 3, 101)
	a.letAll()
	end()
	require.Equal(t, [][]int{{1}, {2, 3}, {100, 101}}, a.calls)
}

func TestWhoIsNotAnsweredAsksAlone(t *testing.T) {
	a := newAsked(t)
	a.skips = func(n int) bool { return n == 3 }
	end := a.begin(1, 2, 3, 4)
	a.letAll()
	require.Equal(t, []string{"together 1", "together 2", "alone 3", "together 4"}, end())
}

func TestWhereACallIsRefusedEachAsksAlone(t *testing.T) {
	a := newAsked(t)
	a.fails = func([]int) error { return errors.New("one of them is refused") }
	end := a.begin(1, 2, 3)
	a.letAll()
	require.Equal(t, []string{"alone 1", "alone 2", "alone 3"}, end())
}

func TestAServerThatIsAwayIsAwayForAll(t *testing.T) {
	a := newAsked(t)
	late := fmt.Errorf("ask: %w", context.DeadlineExceeded)
	a.fails = func([]int) error { return late }
	a.away = errors.New("no answer")
	end := a.begin(1, 2, 3)
	a.letAll()
	require.Equal(t, slices.Repeat([]string{late.Error()}, 3), end())
	require.Empty(t, a.alone)
}

// Each of them has waited for as long as the one that was asked for, and would take a deadline of its own.
func TestAServerThatIsAwayIsAwayForThoseWhoWaitToo(t *testing.T) {
	a := newAsked(t)
	late := fmt.Errorf("ask: %w", context.DeadlineExceeded)
	a.fails = func([]int) error { return late }
	a.away = errors.New("no answer")
	end := a.begin(1, 2, 3, 4, 5, 100)
	a.let <- struct{}{}
	require.Equal(t, slices.Repeat([]string{late.Error()}, 6), end())
	require.Equal(t, [][]int{{1}}, a.calls)
	a.rests()
}

// The fault may be one row's: a bad block, a trigger that asks elsewhere, or one that is slow.
func TestWhereACallForSeveralFailsAndTheServerAnswersEachAsksAlone(t *testing.T) {
	for name, fault := range map[string]error{
		"late": context.DeadlineExceeded, "a bad block": &pgconn.PgError{Code: "58030"}, "a trigger's": &pgconn.PgError{Code: "08001"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsked(t)
			a.fails = func(all []int) error {
				if slices.Contains(all, 3) {
					return fmt.Errorf("ask: %w", fault)
				}
				return nil
			}
			end := a.begin(1, 2, 3, 4, 5)
			a.letAll()
			require.Equal(t, []string{"together 1", "alone 2", "alone 3", "alone 4", "together 5"}, end())
			require.Equal(t, 1, a.probes)
		})
	}
}

func TestOneThatIsLateAloneIsNotTheOthersMatter(t *testing.T) {
	a := newAsked(t)
	late := fmt.Errorf("ask: %w", context.DeadlineExceeded)
	a.fails = func(all []int) error {
		if all[0] == 1 {
			return late
		}
		return nil
	}
	end := a.begin(1, 2, 3)
	a.letAll()
	require.Equal(t, []string{late.Error(), "together 2", "together 3"}, end())
}

func TestHalfAsManyGoTogetherAfterACallThatFailedAndTwiceAsManyAfterOneThatDidNot(t *testing.T) {
	a := newAsked(t)
	a.most = 4
	a.fails = func(all []int) error {
		if slices.Contains(all, 2) {
			return context.DeadlineExceeded
		}
		return nil
	}
	end := a.begin(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
	a.letAll()
	end()
	require.Equal(t, [][]int{{1}, {2, 3, 4, 5}, {6, 7}, {8, 9, 10, 11}, {12, 13, 14}}, a.calls)
}

// What is under way may be committed already: who leaves at once would not know of it.
func TestWhoLeavesDuringACallThatIsAnsweredSoonHasTheAnswer(t *testing.T) {
	a := newAsked(t)
	ctx, leave := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for n := range 2 {
		all.Go(func() {
			answer, err := a.ask(ctx, n)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("together ", n), answer)
		})
		a.until(1, n)
	}
	a.let <- struct{}{}
	a.until(2, 0)
	leave()
	a.letAll()
	all.Wait()
	a.rests()
}

func TestWhoDoesNotWaitAnyLongerIsNotAskedFor(t *testing.T) {
	a := newAsked(t)
	end := a.begin(1)
	ctx, leave := context.WithCancel(context.Background())
	var left sync.WaitGroup
	left.Go(func() {
		_, err := a.ask(ctx, 2)
		require.ErrorIs(t, err, context.Canceled)
	})
	a.until(1, 1)
	leave()
	left.Wait()
	a.until(1, 0)
	a.letAll()
	require.Equal(t, []string{"together 1"}, end())
	require.Equal(t, [][]int{{1}}, a.calls)
}

func TestNobodyIsForgottenWhileOthersLeave(t *testing.T) {
	a := newAsked(t)
	a.letAll()
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			ctx, leave := context.WithCancel(context.Background())
			if n%2 == 0 {
				go leave()
			}
			_, err := a.ask(ctx, n%100)
			leave()
			if n%2 == 1 && err != nil {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	all.Wait()
	a.rests()
}

// A stop does not wait for a server that is silent.
func TestACallThatNobodyStaysForEnds(t *testing.T) {
	a := newAsked(t)
	ctx, leave := context.WithCancel(context.Background())
	var left sync.WaitGroup
	left.Go(func() {
		_, err := a.ask(ctx, 1)
		require.Error(t, err)
	})
	a.until(1, 0)
	leave()
	left.Wait()
	a.rests()
}

func TestWhoLeavesACallEndsItForNobodyElse(t *testing.T) {
	a := newAsked(t)
	end := a.begin(1, 2)
	ctx, leave := context.WithCancel(context.Background())
	var left sync.WaitGroup
	left.Go(func() {
		_, err := a.ask(ctx, 3)
		require.ErrorIs(t, err, context.Canceled)
	})
	a.until(1, 2)
	a.let <- struct{}{}
	a.until(2, 0)
	leave()
	left.Wait()
	a.letAll()
	require.Equal(t, []string{"together 1", "together 2"}, end())
	a.rests()
}

// rests waits until nobody is asked for, and nobody waits.
func (a *asked) rests() {
	a.t.Helper()
	testkit.Eventually(a.t, time.Minute, func() error {
		a.gather.mu.Lock()
		defer a.gather.mu.Unlock()
		if a.works || len(a.waiting) > 0 {
			return fmt.Errorf("%d wait", len(a.waiting))
		}
		return nil
	})
}
