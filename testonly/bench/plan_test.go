package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/scheduler"
)

func TestGroupsAreChosenByTheirNamesAndAnUnknownNameIsRefused(t *testing.T) {
	all, err := choose("")
	require.NoError(t, err)
	require.Len(t, all, len(groups))
	for i, name := range names() {
		one, err := choose(name)
		require.NoError(t, err)
		require.Len(t, one, 1)
		require.Equal(t, groups[i].name, one[0].name)
	}
	two, err := choose("trigger,dispatch")
	require.NoError(t, err)
	require.Len(t, two, 2)
	require.Equal(t, "dispatch", two[1].name)
	_, err = choose("dispatch,everything")
	require.ErrorContains(t, err, "there are dispatch, cycles")
}

func TestTheCeilingClaimsInBatchesOfTheSchedulersDefault(t *testing.T) {
	var cfg scheduler.Config
	require.NoError(t, config.Load(&cfg))
	require.Equal(t, cfg.ClaimBatch, claimBatch)
}

func TestTheShortFormIsSmallerInEverySize(t *testing.T) {
	for name, sizes := range map[string][2]int{
		"turns": {small.turns, long.turns}, "dispatch": {small.dispatch, long.dispatch}, "loop": {small.loop, long.loop},
		"workflow": {small.workflow, long.workflow}, "cycles": {small.cycles, long.cycles}, "many": {small.many, long.many},
		"few": {small.few, long.few}, "at rest": {small.atRest, long.atRest}, "due": {small.due, long.due},
		"ticks": {small.ticks, long.ticks}, "triggers": {small.triggers, long.triggers},
		"rate": {small.rate, long.rate}, "seconds": {small.seconds, long.seconds}, "streams": {small.streams, long.streams},
	} {
		require.Positive(t, sizes[0], name)
		require.Less(t, sizes[0], sizes[1], name)
	}
	require.Less(t, small.few, small.many)
	require.Less(t, small.few, small.atRest)
}

func TestASizeThatCannotBeMeasuredIsRefusedByItsFlag(t *testing.T) {
	require.NoError(t, long.check())
	require.NoError(t, small.check())
	wrong := long
	wrong.turns, wrong.atRest, wrong.ledger, wrong.rate = -1, long.few, -1, -1
	require.ErrorContains(t, wrong.check(), "-turns -1: must be 1 to 100")
	require.ErrorContains(t, wrong.check(), "-at-rest 1000: must be more than 1000")
	require.ErrorContains(t, wrong.check(), "-ledger -1: must be 0 to 100000000")
	require.ErrorContains(t, wrong.check(), "-rate -1: must be 1 to 10000")
}
