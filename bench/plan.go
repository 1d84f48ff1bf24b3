package main

import (
	"context"

	"github.com/echomind/sync/bench/figures"
)

// sizes are how much of each is measured.
type sizes struct {
	turns    int
	dispatch int // connectors that are due, messages, jobs of River
	loop     int // rows of the obvious loop
	workflow int // workflows of DBOS
	cycles   int // syncs
	many     int // connectors in flight that stand still
	few      int // the same, or connectors at rest, where there are few
	atRest   int // connectors at rest
	due      int // of which are due
	ticks    int
	triggers int
}

var (
	long = sizes{turns: 5, dispatch: 100_000, loop: 5000, workflow: 5000, cycles: 10_000, many: 200_000, few: 1000,
		atRest: 1_000_000, due: 10_000, ticks: 200, triggers: 200}
	small = sizes{turns: 3, dispatch: 4000, loop: 300, workflow: 300, cycles: 500, many: 4000, few: 100,
		atRest: 20_000, due: 1000, ticks: 50, triggers: 20}
)

// claimBatch is the scheduler's default, for the ceilings.
const claimBatch = 500

// The types of connectors that are measured: without a cap, with one, and one that nobody serves.
const (
	free, capped, nobodys = "idle", "capped", "nobodys"
	placesOfCapped        = 64
)

var groups = []struct {
	name string
	take func(*session, context.Context) ([]figures.Row, error)
}{
	{"dispatch", (*session).dispatch},
	{"cycles", (*session).cycles},
	{"in-flight", (*session).inFlight},
	{"at-rest", (*session).atRest},
	{"trigger", (*session).trigger},
}
