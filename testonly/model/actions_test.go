package model

import (
	"slices"

	"pgregory.net/rapid"
)

// action is something that may happen next.
type action struct {
	weight int
	name   string
	// able says whether it can happen now; nil = always.
	able func() bool
	do   func(*rapid.T)
}

func (w *world) actions() []action {
	return slices.Concat(w.sourceActions(), w.userActions(), w.schedulerActions(), w.brokerActions(),
		w.workerActions(), w.semanticActions())
}

// next lets one of the actions happen that can happen now.
func (w *world) next(all []action) func(*rapid.T) {
	return func(t *rapid.T) {
		var able []action
		for _, a := range all {
			if a.able == nil || a.able() {
				able = append(able, slices.Repeat([]action{a}, a.weight)...)
			}
		}
		a := oneOf(t, "action", able)
		t.Logf("%s", a.name)
		w.steps++
		a.do(t)
	}
}

// upTo draws from 0 to n-1, each as often as the others: rapid's own ranges prefer small numbers.
func upTo(t *rapid.T, label string, n int) int {
	return rapid.Custom(func(t *rapid.T) int {
		v := 0
		for range 8 {
			v <<= 1
			if rapid.Bool().Draw(t, "") {
				v++
			}
		}
		return v * n >> 8
	}).Draw(t, label)
}

func between(t *rapid.T, label string, least, most int) int {
	return least + upTo(t, label, most-least+1)
}

func oneOf[T any](t *rapid.T, label string, all []T) T { return all[upTo(t, label, len(all))] }

func (w *world) oneConnector(t *rapid.T) *connector { return oneOf(t, "connector", w.living()) }

func (w *world) anyConnector() bool { return len(w.living()) > 0 }

// events is how much a process still does before it dies; mostly it does not die.
func events(t *rapid.T) int {
	if upTo(t, "dies", 4) > 0 {
		return immortal
	}
	return upTo(t, "events before it dies", 15)
}

func instance(t *rapid.T) int { return upTo(t, "instance", 2) }

// refreshOf is manual only, once, or hourly.
func refreshOf(t *rapid.T) *int {
	hourly := 60
	return oneOf(t, "refresh", []*int{&hourly, &hourly, new(int), nil})
}
