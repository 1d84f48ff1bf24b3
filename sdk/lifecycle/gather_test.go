package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/deadline"
)

// asked is a gather whose calls wait for the test. It lives in a bubble: time passes only where everybody waits.
type asked struct {
	*gather[int, string]
	t     *testing.T
	mu    sync.Mutex
	calls [][]int
	let   chan struct{} // one for each call
	alone []int
	fails func(all []int) error
	skips func(int) bool
}

// gathers is a test in a bubble.
func gathers(t *testing.T, test func(*testing.T, *asked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newAsked(t)) })
}

func newAsked(t *testing.T) *asked {
	t.Helper()
	a := &asked{t: t, let: make(chan struct{}, 100), skips: func(int) bool { return false }, fails: func([]int) error { return nil }}
	a.gather = &gather[int, string]{
		most:  3,
		alike: func(x, y int) bool { return x/100 == y/100 },
		together: func(_ context.Context, all []int) ([]*string, error) {
			a.mu.Lock()
			a.calls = append(a.calls, all)
			a.mu.Unlock()
			<-a.let
			if err := a.fails(all); err != nil {
				return nil, err
			}
			answers := make([]*string, len(all))
			for i, n := range all {
				if !a.skips(n) {
					text := fmt.Sprint("together ", n)
					answers[i] = &text
				}
			}
			return answers, nil
		},
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

// stands waits until everybody waits for something, and says that so many calls are under way, or were, and so many wait.
func (a *asked) stands(calls, waiting int) {
	a.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gather.mu.Lock()
	defer a.gather.mu.Unlock()
	require.Len(a.t, a.calls, calls)
	require.Len(a.t, a.waiting, waiting)
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
		a.stands(1, i)
	}
	return func() []string { all.Wait(); return answers }
}

// leaves asks for one that leaves, and waits until it has gone.
func (a *asked) leaves(n int) (leave context.CancelFunc, gone func()) {
	ctx, leave := context.WithCancel(context.Background())
	var left sync.WaitGroup
	left.Go(func() {
		_, err := a.ask(ctx, n)
		require.ErrorIs(a.t, err, context.Canceled)
	})
	return leave, left.Wait
}

func TestThoseWhoAskWhileACallIsUnderWayGoTogetherInTheNext(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
		end := a.begin(1, 2, 3, 4, 5)
		a.letAll()
		require.Equal(t, []string{"together 1", "together 2", "together 3", "together 4", "together 5"}, end())
		require.Equal(t, [][]int{{1}, {2, 3, 4}, {5}}, a.calls)
		answer, err := a.ask(context.Background(), 6)
		require.NoError(t, err)
		require.Equal(t, "together 6", answer)
	})
}

func TestThoseWhoDifferGoApart(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
		end := a.begin(1, 2, 100, 3, 101)
		a.letAll()
		end()
		require.Equal(t, [][]int{{1}, {2, 3}, {100, 101}}, a.calls)
	})
}

func TestWhoIsNotAnsweredAsksAlone(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
		a.skips = func(n int) bool { return n == 3 }
		end := a.begin(1, 2, 3, 4)
		a.letAll()
		require.Equal(t, []string{"together 1", "together 2", "alone 3", "together 4"}, end())
	})
}

// The fault is nobody's own: a row of one of them may be held, late or broken, or the server away.
func TestWhereACallFailsEachAsksAloneAndTheOthersGoOn(t *testing.T) {
	for name, fault := range map[string]error{"refused": errors.New("one of them is refused"), "late": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			gathers(t, func(t *testing.T, a *asked) {
				a.fails = func(all []int) error {
					if slices.Contains(all, 3) {
						return fmt.Errorf("ask: %w", fault)
					}
					return nil
				}
				end := a.begin(1, 2, 3, 4, 5)
				a.letAll()
				require.Equal(t, []string{"together 1", "alone 2", "alone 3", "alone 4", "together 5"}, end())
			})
		})
	}
}

// One whose row is late holds nobody up.
func TestWhoHasWaitedForAQuarterOfASecondAsksAlone(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
		end := a.begin(1, 2, 3)
		<-time.After(250*time.Millisecond - 1) // of the bubble's clock
		a.stands(1, 2)
		<-time.After(time.Nanosecond)
		a.stands(1, 0)
		require.ElementsMatch(t, []int{2, 3}, a.alone)
		a.letAll()
		require.Equal(t, []string{"together 1", "alone 2", "alone 3"}, end(), "what goes together already stays together")
	})
}

func TestHalfAsManyGoTogetherAfterACallThatFailedAndTwiceAsManyAfterOneThatDidNot(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
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
	})
}

// What is under way may be committed already: who leaves at once would not know of it.
func TestWhoLeavesDuringACallHasItsAnswer(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
		ctx, leave := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for n := range 2 {
			all.Go(func() {
				answer, err := a.ask(ctx, n)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint("together ", n), answer)
			})
			a.stands(1, n)
		}
		a.let <- struct{}{}
		a.stands(2, 0)
		leave()
		a.stands(2, 0)
		a.letAll()
		all.Wait()
	})
}

func TestWhoLeavesDuringACallThatFailsIsAskedForNoMore(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
		a.fails = func([]int) error { return context.DeadlineExceeded }
		leave, gone := a.leaves(1)
		a.stands(1, 0)
		leave()
		a.stands(1, 0)
		a.letAll()
		gone()
		require.Empty(t, a.alone)
	})
}

func TestWhoDoesNotWaitAnyLongerIsNotAskedFor(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
		end := a.begin(1)
		leave, gone := a.leaves(2)
		a.stands(1, 1)
		leave()
		gone()
		a.stands(1, 0)
		a.letAll()
		require.Equal(t, []string{"together 1"}, end())
		require.Equal(t, [][]int{{1}}, a.calls)
		require.Empty(t, a.alone)
	})
}

func TestNobodyIsForgottenWhileOthersLeave(t *testing.T) {
	gathers(t, func(t *testing.T, a *asked) {
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
		synctest.Wait()
		require.Empty(t, a.waiting)
		require.False(t, a.works)
	})
}

// silent has calls end by their deadlines alone, as those to a Postgres that does not answer.
func (a *asked) silent() {
	a.together = func(ctx context.Context, _ []int) ([]*string, error) {
		return nil, deadline.Do(ctx, "together", togetherTimeout, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	}
	a.gather.alone = func(ctx context.Context, _ int) (string, error) {
		return "", deadline.Do(ctx, "alone", callTimeout, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	}
}

// A stop of many workers' runs at once waits for as long as one: by the bubble's clock.
func TestWhereNothingAnswersNobodyWaitsForTheDeadlinesOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ own, most time.Duration }{
		"with no deadline of its own":      {time.Hour, deadline.Of(togetherTimeout) + deadline.Of(callTimeout)},
		"with a shorter one of its own":    {time.Second, max(time.Second, deadline.Of(togetherTimeout))},
		"with a deadline like that of all": {deadline.Of(callTimeout), deadline.Of(togetherTimeout) + deadline.Of(callTimeout)},
	} {
		t.Run(name, func(t *testing.T) {
			gathers(t, func(t *testing.T, a *asked) {
				a.silent()
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.own)
				defer cancel()
				var all sync.WaitGroup
				for n := range 8 {
					all.Go(func() {
						_, err := a.ask(ctx, n)
						require.ErrorIs(t, err, context.DeadlineExceeded)
					})
				}
				all.Wait()
				require.LessOrEqual(t, time.Since(began), c.most)
			})
		})
	}
}
