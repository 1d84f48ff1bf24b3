package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/echomind/sync/testonly/bench/figures"
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
	due      int // those that are due
	ledger   int // runs in the ledger; 0 = it is not measured
	ticks    int
	triggers int
	rate     int // requests a second of the API
	seconds  int // for which they are asked
	streams  int // connections of those who watch at once
}

var (
	long = sizes{turns: 5, dispatch: 100_000, loop: 5000, workflow: 5000, cycles: 10_000, many: 200_000, few: 1000,
		atRest: 1_000_000, due: 10_000, ticks: 1000, triggers: 200, rate: 500, seconds: 30, streams: 10_000}
	small = sizes{turns: 3, dispatch: 4000, loop: 300, workflow: 300, cycles: 500, many: 4000, few: 100,
		atRest: 20_000, due: 1000, ticks: 200, triggers: 20, rate: 50, seconds: 3, streams: 300}
)

// check refuses what can be asked for by a flag and cannot be measured.
func (s sizes) check() error {
	var err error
	if s.turns < 1 || s.turns > 100 {
		err = errors.Join(err, fmt.Errorf("-turns %d: must be 1 to 100", s.turns))
	}
	if s.atRest <= s.few || s.atRest > 10_000_000 {
		err = errors.Join(err, fmt.Errorf("-at-rest %d: must be more than %d, beside which it is measured, and at most 10000000", s.atRest, s.few))
	}
	if s.ledger < 0 || s.ledger > 100_000_000 {
		err = errors.Join(err, fmt.Errorf("-ledger %d: must be 0 to 100000000", s.ledger))
	}
	if s.rate < 1 || s.rate > 10_000 {
		err = errors.Join(err, fmt.Errorf("-rate %d: must be 1 to 10000", s.rate))
	}
	return err
}

// claimBatch is the scheduler's default, for the ceilings.
const claimBatch = 500

// The types of connectors that are measured: without a cap, with one, and one that nobody serves.
const (
	free, capped, nobodys = "idle", "capped", "nobodys"
	conditional           = "conditional"
	placesOfCapped        = 64
)

// group is what is measured on connections of its own.
type group struct {
	name string
	take func(*session, context.Context) ([]figures.Row, error)
}

var groups = []group{
	{"dispatch", (*session).dispatch},
	{"cycles", (*session).cycles},
	{"in-flight", (*session).inFlight},
	{"at-rest", (*session).atRest},
	{"trigger", (*session).trigger},
	{"conditions", (*session).conditions},
	{"events", (*session).events},
	{"api", (*session).api},
	{"ledger", (*session).ledger},
}

func names() (all []string) {
	for _, g := range groups {
		all = append(all, g.name)
	}
	return all
}

// choose is all groups, or those whose names are given, with commas between them.
func choose(only string) ([]group, error) {
	if only == "" {
		return groups, nil
	}
	var chosen []group
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(), name)
		if i < 0 {
			return nil, fmt.Errorf("-only %s: %q is no group; there are %s", only, name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, groups[i])
	}
	return chosen, nil
}
