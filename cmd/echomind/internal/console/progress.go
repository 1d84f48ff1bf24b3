package console

import (
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/internal/clock"
)

// progressEvery is how often a progress whose numbers alone change is written where nobody can write over it.
const progressEvery = 5 * time.Second

// Progress shows what await.Verdict sees, with the rate and what is left. end closes the line.
func Progress(w io.Writer) (show func(await.Progress), end func()) {
	pace := &pace{}
	say, end := progressLines(w)
	return func(p await.Progress) {
		now := time.Now()
		say(p.String()+pace.at(p, now), now)
	}, end
}

// progressLines writes how far something has come: on a terminal in one line that is written over, elsewhere as a line where it says something new, and
// new numbers every few seconds. end closes the line.
func progressLines(w io.Writer) (say func(line string, now time.Time), end func()) {
	if !isTerminal(w) {
		lines := &sparse{}
		return func(line string, now time.Time) {
			if lines.due(line, now) {
				_, _ = fmt.Fprintln(w, printable(line))
			}
		}, func() {}
	}
	began := time.Now()
	return func(line string, now time.Time) {
			_, _ = fmt.Fprintf(w, "\r\x1b[K%s  %s", printable(line), clock.Span(now.Sub(began)))
		}, func() {
			_, _ = fmt.Fprintln(w)
		}
}

// pace measures how fast a run is stored.
type pace struct {
	run   uuid.UUID
	first int64
	since time.Time
}

// at says how many messages a second are stored since the run was seen first and, where their number is known, how long the
// rest takes at that pace.
func (m *pace) at(p await.Progress, now time.Time) string {
	r := p.Run
	if r == nil || r.CompletedAt != nil || r.PickedUpAt == nil {
		return ""
	}
	if m.run != r.ID {
		*m = pace{run: r.ID, first: r.Stored, since: now}
	}
	stored, took := r.Stored-m.first, now.Sub(m.since)
	if stored <= 0 || took < time.Second {
		return ""
	}
	rate := float64(stored) / took.Seconds()
	said := fmt.Sprintf(", %.0f/s", rate)
	if rate < 10 {
		said = fmt.Sprintf(", %.1f/s", rate)
	}
	if r.Total != nil && *r.Total > r.Stored {
		left := time.Duration(float64(*r.Total-r.Stored) / rate * float64(time.Second))
		said += fmt.Sprintf(", about %s left", clock.Span(left.Round(time.Second)))
	}
	return said
}

var numbers = regexp.MustCompile(`[0-9.]+`)

// sparse lets through what says something new, and new numbers of the same now and then.
type sparse struct {
	last string
	at   time.Time
}

func (s *sparse) due(line string, now time.Time) bool {
	words := numbers.ReplaceAllString(line, "")
	if words == s.last && now.Sub(s.at) < progressEvery {
		return false
	}
	s.last, s.at = words, now
	return true
}
