package campaign

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
)

func trigger(run string, at time.Time) *nats.Msg {
	msg := nats.NewMsg("connector.sync.web")
	msg.Header.Set(topology.HeaderSession, run)
	msg.Header.Set(topology.HeaderDispatchedAt, wire.FormatTime(at))
	return msg
}

func TestAMessageWithinTheGraceOfTheOneBeforeIsALoop(t *testing.T) {
	const grace = 14 * time.Second
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at       []time.Duration
		violated int
	}{
		"one message":                         {[]time.Duration{0}, 0},
		"each grace is twice the one before":  {[]time.Duration{0, grace, 3 * grace, 3*grace + 4*grace}, 0},
		"heard in another order":              {[]time.Duration{grace, 0}, 0},
		"the same dispatch, twice":            {[]time.Duration{0, 0}, 1},
		"within the grace":                    {[]time.Duration{0, grace - time.Second}, 1},
		"within the second grace":             {[]time.Duration{0, grace, 2 * grace}, 1},
		"again and again":                     {[]time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, 3},
		"no grace is longer than the longest": {[]time.Duration{0, grace, 3 * grace, 7 * grace, 7*grace + maxGrace}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRepeats()
			for _, at := range c.at {
				r.Hear(trigger("one", began.Add(at)))
			}
			r.Hear(trigger("another", began))
			f := r.Finding(grace, false)
			require.Equal(t, c.violated, f.Violated, f.Violations)
			require.Equal(t, len(c.at)+1, f.Checked)
		})
	}
}

func TestWhatTheHarnessSaysAgainIsNoLoop(t *testing.T) {
	r := NewRepeats()
	r.Hear(trigger("one", time.Now()))
	again := trigger("one", time.Now())
	again.Header.Set("Chaos-Replayed", "1")
	r.Hear(again)
	r.Hear(nats.NewMsg("connector.sync.web")) // noise
	require.Zero(t, r.Finding(time.Minute, false).Violated)
	require.Equal(t, 1, r.Finding(time.Minute, false).Checked)
}

func TestInAClusterOneMessageMayBeHeardTwice(t *testing.T) {
	r, at := NewRepeats(), time.Now()
	r.Hear(trigger("one", at))
	r.Hear(trigger("one", at))
	r.Hear(trigger("one", at.Add(time.Second)))
	require.Equal(t, 2, r.Finding(time.Minute, false).Violated)
	r = NewRepeats()
	r.Hear(trigger("one", at))
	r.Hear(trigger("one", at))
	require.Zero(t, r.Finding(time.Minute, true).Violated)
}
