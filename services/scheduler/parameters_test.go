package scheduler

import (
	"fmt"
	"testing"
	"time"
)

func TestTheMessageOfARunWithParametersHasTheMergedConfig(t *testing.T) {
	s := setStage(t)
	s.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'web'`)
	id := s.connector(row{"config": `{"url": "https://a", "deep": {"b": 1, "c": 2}}`})
	s.exec(`SELECT moves.trigger_sync($1, parameters => '{"url": "https://b", "deep": {"b": null}}')`, id)
	says := func(what string, sent Trigger) {
		t.Helper()
		if got := string(sent.Config); got != `{"url": "https://b", "deep": {"c": 2}}` {
			t.Errorf("%s: %s", what, got)
		}
	}
	again := func(what string) {
		t.Helper()
		s.age(pastTheGrace)
		s.republish()
		sent := s.messages("web")
		if len(sent) == 0 {
			t.Errorf("%s: nothing", what)
		}
		for _, m := range sent {
			if got := fmt.Sprint(m.Config.AsMap()); got != "map[deep:map[c:2] url:https://b]" {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
	all := s.claim(s.scheduler())
	says("claimed", all[0])
	again("published again")
	s.pickUp(id, gone)
	s.rescue()
	want(s, true, `SELECT trigger = 'rescue' AND parameters IS NOT NULL FROM open_runs WHERE connector_id = $1`, id)
	again("published after a rescue")
	try := s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.fail($1, $2, 'transient', 'no')`, try.Run, try.ID)
	s.force(`UPDATE connectors SET next_sync_at = now() WHERE id = $1`, id)
	all = s.claim(s.scheduler())
	says("tried again", all[0])
	try = s.pickUp(id, time.Minute)
	want(s, true, `SELECT moves.skip($1, $2, '{}', NULL, 0)`, try.Run, try.ID)
	s.exec(`SELECT moves.trigger_sync($1)`, id)
	all = s.claim(s.scheduler())
	if got := string(all[0].Config); got != `{"url": "https://a", "deep": {"b": 1, "c": 2}}` {
		t.Errorf("the next run has %s", got)
	}
}
