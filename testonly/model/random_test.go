package model

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/echomind/sync/testonly/testkit"
)

// seeds are fixed: what lands must not hang on luck. `make model` plays fresh ones.
var seeds = []uint64{1, 2, 3, 4029174069}

const (
	histories = 12 / testkit.UnderRace // of each seed
	actions   = 60                     // of each history, on average
)

func TestThePromisesHoldInEveryHistory(t *testing.T) {
	l := newLab(t)
	set := func(name string, value any) { unlessGiven(t, name, value) }
	set("checks", histories)
	set("steps", actions)
	set("nofailfile", true) // the seed is enough
	all := seeds
	if given()["rapid.seed"] || given()["rapid.failfile"] {
		all = all[:1] // what is given stands in its place
	}
	played, acted, tally := 0, 0, map[string]int{}
	for _, seed := range all {
		set("seed", seed)
		t.Logf("-rapid.seed=%s", flag.Lookup("rapid.seed").Value)
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(l, rt)
			for range 3 {
				w.addOne(rt)
			}
			rt.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) { w.check() }, "act": w.next(w.actions())})
			w.tally(tally)
			w.heal()
			played++
			acted += w.steps
		})
	}
	t.Logf("%d histories, %d actions; before they were healed: %v", played, acted, tally)
}

// given are the flags of the command line: what is set later counts as given too.
var given = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { names[f.Name] = true })
	return names
})

// unlessGiven sets a flag of rapid's that the command line does not.
func unlessGiven(t *testing.T, name string, value any) {
	t.Helper()
	if given()["rapid."+name] {
		return
	}
	if err := flag.Set("rapid."+name, fmt.Sprint(value)); err != nil {
		t.Fatal(err)
	}
}

// tally counts what a history had brought about before it was healed, so that it can be seen whether the actions
// reach what they are meant for.
func (w *world) tally(into map[string]int) {
	w.tb.Helper()
	now := w.look()
	for _, r := range now.runs {
		into[strings.TrimSpace(r.Status+" "+strings.SplitN(deref(r.Reason), ":", 2)[0])]++
		if r.CheckpointNo > 0 {
			into["checkpoint passed by "+r.Status]++
		}
	}
	for _, c := range now.connectors {
		into[c.Status]++
	}
	for _, d := range now.documents {
		into["document "+d.Status+" "+strings.SplitN(deref(d.Error), ":", 2)[0]]++
	}
}
