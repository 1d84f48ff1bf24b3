package scheduler

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/telemetry"
)

// line is what a log line says of a run.
type line struct {
	Level, Event, Session, Type string
	Connector                   int32
}

// lines are those that tell of a run. Each must say which.
func (s *stage) lines(log *bytes.Buffer) (all []line) {
	s.Helper()
	for text := range strings.Lines(log.String()) {
		var l line
		s.do(json.Unmarshal([]byte(text), &l))
		if l.Connector == 0 && l.Session == "" {
			continue
		}
		if l.Connector == 0 || l.Session == "" || l.Type == "" {
			s.Errorf("a line does not name its run: %s", text)
		}
		all = append(all, l)
	}
	return all
}

func TestTheLinesOfARunNameItFromItsTriggerToItsRescue(t *testing.T) {
	s := setStage(t)
	log := &bytes.Buffer{}
	process := s.process()
	process.Log = telemetry.Logger(log, "json", slog.LevelInfo)
	cfg := s.config()
	cfg.LeaseSeconds = 0
	scheduler := New(cfg, s.servers, process)
	id := s.connector(row{"type": "file"})
	s.do(scheduler.Tick(t.Context()))
	lost := s.pickUp(id, gone).Run
	s.do(scheduler.Rescue(t.Context()))
	next := one[uuid.UUID](s, `SELECT run_id FROM connectors`)
	s.age(pastTheGrace)
	s.do(s.servers.Stream.DeleteStream(t.Context(), "CONNECTOR_SYNC"))
	s.do(scheduler.Republish(t.Context()))
	triggered := func(session uuid.UUID) line { return line{"INFO", "triggered", session.String(), "file", id} }
	want := []line{triggered(lost), {"WARN", "failed", lost.String(), "file", id}, triggered(next), triggered(next)}
	s.equal(s.lines(log), want)
}

func (s *stage) equal(got, want []line) {
	s.Helper()
	if len(got) != len(want) {
		s.Fatalf("%d lines, want %d: %v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			s.Errorf("line %d is %v, want %v", i, got[i], want[i])
		}
	}
}
