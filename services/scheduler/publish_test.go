package scheduler

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/contract/topology"
)

func TestAMessageCarriesWhatTheContractSays(t *testing.T) {
	s := setStage(t)
	id := s.connector(row{
		"user_id": 42, "scope": "group", "scope_id": "sales",
		"config": `{"url":"https://example.org","big":9007199254740993,"small":7,"list":[-9007199254740995,1.5]}`,
		"state":  `{"cursor":18446744073709551615}`,
	})
	s.do(s.scheduler().Tick(t.Context()))
	all := s.messages("web")
	if len(all) != 1 {
		t.Fatalf("%d messages, want 1", len(all))
	}
	m := all[0]
	if m.ConnectorId != id || m.UserId != 42 || m.GetScopeId() != "sales" || m.TypeName != "web" ||
		m.Type != publicpb.ConnectorType_CONNECTOR_TYPE_WEB ||
		m.Scope != publicpb.ConnectorScope_CONNECTOR_SCOPE_GROUP || m.DueReason != "new" {
		t.Errorf("message %v", m.ConnectorSyncRequest)
	}
	if m.ChunkingSession != s.session(id).String() {
		t.Errorf("session %s, want the connector's", m.ChunkingSession)
	}
	want(s, m.ConfigVersion, `SELECT config_version FROM connectors WHERE id = $1`, id)
	config := m.Config.AsMap()
	if config["big"] != "9007199254740993" || config["small"] != 7.0 || config["url"] != "https://example.org" ||
		!slices.Equal(config["list"].([]any), []any{"-9007199254740995", 1.5}) {
		t.Errorf("config %v", config)
	}
	if m.State.AsMap()["cursor"] != "18446744073709551615" {
		t.Errorf("state %v", m.State)
	}
}

func TestTheDispatchTravelsInMicrosecondsAndWithoutADuplicateWindow(t *testing.T) {
	s := setStage(t)
	id := s.connector(nil)
	s.do(s.scheduler().Tick(t.Context()))
	header := s.messages("web")[0].header
	value := header.Get(topology.HeaderDispatchedAt)
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`).MatchString(value) {
		t.Errorf("%s is %q", topology.HeaderDispatchedAt, value)
	}
	at, err := topology.DispatchedAt(header)
	s.do(err)
	want(s, true, `SELECT dispatched_at = $2 FROM open_runs WHERE connector_id = $1`, id, at)
	if _, there := header[nats.MsgIdHdr]; there {
		t.Errorf("headers %v have a message id", slices.Collect(maps.Keys(header)))
	}
}

func TestATypeOfAnotherTeamTravelsAsCustom(t *testing.T) {
	s := setStage(t)
	s.exec(`INSERT INTO connector_types (name) VALUES ('wiki')`)
	s.connector(row{"type": "wiki"})
	s.do(s.scheduler().Tick(t.Context()))
	all := s.messages("wiki")
	if len(all) != 1 || int32(all[0].Type) != 100 || all[0].TypeName != "wiki" || all[0].subject != "connector.sync.wiki" {
		t.Errorf("messages %v", all)
	}
}

func TestEveryKnownTypeKeepsItsNumber(t *testing.T) {
	s := setStage(t)
	numbers := map[string]int32{"teams": 1, "google_drive": 2, "onedrive": 3, "web": 4, "file": 5}
	for name := range numbers {
		s.connector(row{"type": name})
	}
	s.do(s.scheduler().Tick(t.Context()))
	for name, number := range numbers {
		if all := s.messages(name); len(all) != 1 || int32(all[0].Type) != number {
			t.Errorf("%s: messages %v, want number %d", name, all, number)
		}
	}
}

func TestATriggerThatCannotBeWrittenDoesNotHoldTheOthers(t *testing.T) {
	s := setStage(t)
	s.connector(nil)
	scheduler := s.scheduler()
	batch := s.claim(scheduler)
	poison := batch[0]
	poison.Config = []byte(`["not an object"]`)
	scheduler.dispatcher.publish(t.Context(), []Trigger{poison, batch[0]})
	s.queued(batch[0].Session)
	if scheduler.dispatcher.waiting() {
		t.Error("the scheduler waits for the stream, which took everything it was given")
	}
}

func TestARepeatIsNeverSwallowed(t *testing.T) {
	s := setStage(t)
	s.connector(nil)
	scheduler := s.scheduler()
	batch := s.claim(scheduler)
	for range 2 {
		scheduler.dispatcher.publish(t.Context(), batch)
		s.queued(batch[0].Session)
		s.purge()
	}
}
