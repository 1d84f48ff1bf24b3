package main

import (
	"context"
	"testing"

	"github.com/echomind/sync/testonly/bench/load"
)

func TestNothingIsMeasuredBesideReadsThatEndedOrWereNotAnswered(t *testing.T) {
	t.Parallel()
	answers := func(refused int) load.Result {
		return load.Result{Took: map[string][]float64{"page": make([]float64, 100)}, Refused: map[string]int{"page: 503": refused}}
	}
	for name, of := range map[string]struct {
		lasts   bool
		refused int
		is      bool
	}{
		"answered": {true, 0, true}, "few refused": {true, 10, true}, "many refused": {true, 11, false}, "ended": {false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			b := background{stop: stop, ask: func() (load.Result, error) {
				if of.lasts {
					<-ctx.Done()
				}
				return answers(of.refused), nil
			}}
			b.begin()
			if err := b.end(); (err == nil) != of.is {
				t.Errorf("it ends with %v", err)
			}
		})
	}
	b := background{stop: func() {}}
	if err := b.end(); err != nil {
		t.Errorf("what did not begin ends with %v", err)
	}
}
