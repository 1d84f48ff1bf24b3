package semantic

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stops is a running service that can be asked to stop without being waited for.
func (f *flow) stops() (ask func(), ended chan error) {
	working, cancel := context.WithCancel(ctx)
	ended = make(chan error, 1)
	go func() { ended <- f.Run(working) }()
	f.t.Cleanup(cancel)
	return cancel, ended
}

func await[T any](t *testing.T, what string, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(soon):
		t.Fatalf("%s: nothing happened", what)
	}
	return value
}

// gate holds calls that come with its text, until it is opened. Others pass.
type gate struct {
	text   string
	inside chan struct{}
	open   chan struct{}
}

func newGate(text string) *gate {
	return &gate{text: text, inside: make(chan struct{}, 8), open: make(chan struct{})}
}

func (g *gate) pass(text string) {
	if strings.Contains(text, g.text) {
		g.inside <- struct{}{}
		<-g.open
	}
}

// noTryIsBurnt fails the test where a try is counted, or anything was given up.
func (f *flow) noTryIsBurnt() {
	f.t.Helper()
	require.Zero(f.t, f.count("message_tries WHERE tries > 0"))
	require.Empty(f.t, f.letters())
	require.Zero(f.t, f.count("connectors WHERE failure_count > 0"))
}

// atWork are the moments at which a stop finds the service.
var atWork = map[string]func(f *flow, g *gate){
	"embedding": func(f *flow, g *gate) {
		f.embedding = func(texts []string) error { g.pass(strings.Join(texts, " ")); return nil }
	},
	"storing": func(f *flow, g *gate) {
		f.writing = func(pieces []Piece) error { g.pass(pieces[0].Text); return nil }
	},
}

func TestAStopAtWorkHandsBackAndBurnsNoTry(t *testing.T) {
	for moment, hook := range atWork {
		for name, deliver := range map[string]func(f *flow){
			"fresh": func(*flow) {},
			"redelivered": func(f *flow) { // so that a try is written down
				for _, msg := range f.pulled(2) {
					require.NoError(f.t, msg.Nak())
				}
			},
		} {
			t.Run(moment+", "+name, func(t *testing.T) {
				f := newFlow(t)
				f.config.Workers = 1
				g := newGate("apple")
				hook(f, g)
				c := f.syncing()
				f.publishes(c.doc(1, "a", "apple"), c.completed(1))
				deliver(f)
				ask, ended := f.stops()
				await(t, moment, g.inside)
				ask()
				close(g.open)
				require.NoError(t, await(t, "the end of Run", ended))
				require.Equal(t, "running", c.verdict())
				f.noTryIsBurnt()

				f.runs()
				f.becomes(c, "completed")
				f.empties()
				require.Empty(t, f.letters())
				require.Equal(t, line("a", "apple"), c.documents())
			})
		}
	}
}

func TestAStopWithABatchHalfAcknowledgedHandsBackTheOtherHalf(t *testing.T) {
	f := newFlow(t)
	f.config.Workers = 1
	g := newGate("banana")
	atWork["storing"](f, g)
	done, waiting := f.syncing(), f.syncing()
	f.publishes(done.doc(1, "a", "apple"), waiting.doc(1, "b", "banana"), waiting.doc(2, "c", "cherry"),
		done.completed(1), waiting.completed(2))
	ask, ended := f.stops()
	await(t, "the second half", g.inside)
	require.Equal(t, int64(1), done.stored(), "the first half is stored")
	ask()
	close(g.open)
	require.NoError(t, await(t, "the end of Run", ended))
	f.noTryIsBurnt()
	require.Equal(t, "running", waiting.verdict())
	require.Zero(t, waiting.stored())

	f.runs()
	f.becomes(done, "completed")
	f.becomes(waiting, "completed")
	f.empties()
	require.Equal(t, int64(1), done.stored())
	require.Equal(t, int64(2), waiting.stored())
}

func TestAStopWhileARedeliveredMessageWaitsForAServerBurnsNoTry(t *testing.T) {
	f := newFlow(t)
	f.embedding = func([]string) error { return errors.New("no answer") }
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"))
	require.NoError(t, f.pulled(1)[0].Nak())
	stop := f.runs()
	f.waitsAtLeast(1)
	stop()
	f.noTryIsBurnt()
	require.Equal(t, "running", c.verdict())
}
