package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

func (c caller) watchRun(of something, headers ...string) *stream {
	c.Helper()
	s := c.openStream(http.DefaultClient, "/api/v1/runs/"+of.run.String()+"/events", append(headers, "Authorization", "Bearer "+c.token)...)
	require.Equal(c, heard{}, s.read()) // in how long to come back
	return s
}

// progress is what is told next of a run.
func (s *stream) progress() (run struct{ ID, Status, ProgressText string }) {
	s.Helper()
	h := s.next()
	require.Equal(s, "progress", h.kind)
	var told map[string]any
	require.NoError(s, json.Unmarshal([]byte(h.data), &told))
	run.ID, run.Status = told["id"].(string), told["status"].(string)
	run.ProgressText, _ = told["progress_text"].(string)
	return run
}

func TestAWatchedRunTellsHowFarItHasComeUntilItIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, of := w.as(7, identity.User), w.something(identity.Ownership{UserID: 7, Scope: "user"})
	s := me.watchRun(of)
	first := s.progress()
	require.Equal(t, of.run.String(), first.ID)
	require.Equal(t, "running", first.Status)
	w.exec(`UPDATE open_runs SET progress_done = 5, progress_total = 9, progress_text = 'page 5' WHERE id = $1`, of.run)
	require.Equal(t, "page 5", s.progress().ProgressText)
	behind := me.watchRun(of, "Last-Event-ID", s.last)
	w.exec(`SELECT moves.cancel($1)`, of.run)
	for _, each := range []*stream{s, behind} {
		require.Equal(t, "superseded", each.progress().Status, "and nothing that was told already")
		require.Equal(t, heard{}, each.read(), "it ends with the run")
	}
	again := me.do("GET", "/runs/"+of.run.String()+"/events", nil, "Last-Event-ID", s.last)
	require.Equal(t, http.StatusNoContent, again.status)
	late := me.watchRun(of)
	require.Equal(t, "superseded", late.progress().Status)
}

func TestAWatchedRunIsToldToNobodyWhoSeesItNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, of := w.as(7, identity.User), w.something(identity.Ownership{UserID: 7, Scope: "user"})
	s := me.watchRun(of)
	s.progress()
	w.exec(`UPDATE connectors SET user_id = 8 WHERE id = $1`, of.id)
	require.Equal(t, heard{}, s.read(), "it has ended")
	me.refused(404, "not-found", me.do("GET", "/runs/"+of.run.String()+"/events", nil))
}

// Postgres answers nothing about runs here. Each look that waits is one transaction, of however many streams.
func TestAllWhoWatchRunsWaitOnOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // its pool has 4
	for user := range int32(8) {
		of := w.something(identity.Ownership{UserID: 7 + user, Scope: "user"})
		w.as(7+user, identity.User).watchRun(of).progress()
	}
	tx, err := w.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE open_runs IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	other, err := pgx.Connect(t.Context(), w.url) // a transaction sees who waits as it was when it first asked
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close(t.Context()) })
	looks := map[time.Time]bool{}
	testkit.Eventually(t, time.Minute, func() error {
		rows, err := other.Query(t.Context(), `SELECT xact_start FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'echomind-api' AND wait_event_type = 'Lock'`)
		require.NoError(t, err)
		began, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		require.NoError(t, err)
		require.LessOrEqual(t, len(began), 1, "several connections wait for what is watched")
		for _, at := range began {
			looks[at] = true
		}
		if len(looks) < 3 {
			return fmt.Errorf("%d looks have waited", len(looks))
		}
		return nil
	})
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestAsManyAsWatchRunsAreToldWhatEachOfThemSees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := w.something(identity.Ownership{UserID: 8, Scope: "org"})
	w.exec(`UPDATE open_runs SET warnings = '{"left out"}' WHERE id = $1`, open.run)
	var all []*stream
	for user := range int32(7) { // more than one statement asks for
		me, mine := w.as(7+user, identity.User), w.something(identity.Ownership{UserID: 7 + user, Scope: "user"})
		for range 4 {
			all = append(all, me.watchRun(open), me.watchRun(mine))
		}
	}
	for _, s := range all {
		s.progress()
	}
	w.exec(`UPDATE open_runs SET progress_text = 'page of ' || id`)
	for i, s := range all {
		told := s.progress()
		require.Equal(t, "page of "+told.ID, told.ProgressText, i)
	}
	w.exec(`SELECT moves.cancel(id) FROM open_runs`)
	for i, s := range all {
		require.Equal(t, "superseded", s.progress().Status, i)
		require.Equal(t, heard{}, s.read(), i)
	}
}

func TestAWatchedRunTakesOneOfTheStreamsThatAUserMayHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.MaxWatchers = 11 })
	me, of := w.as(7, identity.User), w.something(identity.Ownership{UserID: 7, Scope: "user"})
	s := me.watchRun(of)
	refused := me.do("GET", "/runs/"+of.run.String()+"/events", nil)
	me.refused(http.StatusServiceUnavailable, "unavailable", refused)
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	s.close()
	testkit.Eventually(t, time.Minute, func() error {
		r := me.do("GET", "/runs/"+of.run.String()+"/events", nil)
		if r.status != http.StatusOK {
			return errors.New(r.text)
		}
		return nil
	})
}

func TestABrowserIsToldHowFarTheRunOfASourceHasCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := w.something(identity.Ownership{UserID: 7, Scope: "user"})
	b := w.as(7, identity.User).signedIn()
	w.exec(`UPDATE open_runs SET progress_text = 'page 5', stored = 3, total = 9 WHERE id = $1`, of.run)
	page := b.get(fmt.Sprintf("/sources/%d", of.id))
	require.Contains(t, page.text, `data-run="`+of.run.String()+`"`)
	require.Contains(t, page.text, "page 5; 3 of 9 messages are stored")
	s := w.openStream(&http.Client{Jar: b.client.Jar}, "/runs/"+of.run.String()+"/events")
	require.Equal(t, heard{}, s.read())
	require.Equal(t, "page 5", s.progress().ProgressText)
	w.exec(`SELECT moves.cancel($1)`, of.run)
	require.Equal(t, "superseded", s.progress().Status)
	require.NotContains(t, b.get(fmt.Sprintf("/sources/%d", of.id)).text, "data-run")
}

func TestAHeadOfAStreamDoesNotHoldItsConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, of := w.as(7, identity.User), w.something(identity.Ownership{UserID: 7, Scope: "user"})
	one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: time.Minute}
	for _, ask := range [][2]string{{"HEAD", "/runs/" + of.run.String() + "/events"}, {"GET", "/types"}} {
		r, err := http.NewRequestWithContext(t.Context(), ask[0], w.server.URL+"/api/v1"+ask[1], nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+me.token)
		answered, err := one.Do(r)
		require.NoError(t, err, ask)
		require.NoError(t, answered.Body.Close())
		require.Equal(t, http.StatusOK, answered.StatusCode)
	}
}
