package teams_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
	"github.com/echomind/sync/services/connector/teams"
	"github.com/echomind/sync/testonly/fakegraph"
)

func TestAThreadIsOneDocument(t *testing.T) {
	w := newWorld(t)
	root := w.fake.Say(channelID, "", fakegraph.Post{
		Author: "Robin Kline", Subject: "Release plan", HTML: `<div>Hi <at id="0">Jane</at>, see <a href="https://x.example/a">this</a>
			&amp; <b>that</b></div><ul><li>one</li><li>two</li></ul>`, Mentions: []string{"Jane Smith"},
	})
	w.say(root, "Jane Smith", "answer")
	w.say("", "Ann", "another")
	r, err := w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, r.Put)
	d := w.docs()["message/"+root]
	require.Equal(t, "Release plan", d.Title)
	require.Equal(t, "https://teams.example/l/message/19:4a95f7d8@thread.tacv2/"+root, d.URL)
	require.Equal(t, "Robin Kline (2026-03-01 09:00 UTC):\nHi @Jane Smith, see this (https://x.example/a) & that\n- one\n- two\n\n"+
		"Jane Smith (2026-03-01 09:00 UTC):\nanswer", workertest.Text(d))
}

func TestNewEditedAndDeletedMessagesAreFound(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		t.Run(fmt.Sprint("replies hidden ", hidden), func(t *testing.T) {
			w := newWorld(t)
			w.fake.RepliesHidden = hidden
			a, b := w.say("", "Ann", "alpha"), w.say("", "Bob", "beta")
			reply := w.say(a, "Bob", "gamma")
			w.sync()
			w.fake.Edit(channelID, reply, post(w, "Bob", "delta"))
			require.Equal(t, 1, w.sync().Put, "an edited reply")
			w.say(b, "Ann", "epsilon")
			require.Equal(t, 1, w.sync().Put, "a new reply")
			w.fake.Retract(channelID, reply)
			require.Equal(t, 1, w.sync().Put, "a deleted reply")
			w.fake.Edit(channelID, a, post(w, "Ann", "zeta"))
			require.Equal(t, 1, w.sync().Put, "an edited root")
			w.fake.Retract(channelID, b)
			require.Equal(t, 1, w.sync().Put, "a deleted root: its replies stay")
			w.fake.Retract(channelID, a)
			require.Equal(t, 1, w.sync().Deleted, "nothing is left of a thread")
			w.fake.Remove(channelID, b)
			require.Equal(t, 1, w.sync().Deleted, "a thread that was removed")
			require.Empty(t, w.ids())
		})
	}
}

func TestReactionsEventsAndWhatAPolicyHidesAreNotStored(t *testing.T) {
	w := newWorld(t)
	a := w.say("", "Ann", "alpha")
	w.fake.Say(channelID, "", fakegraph.Post{System: true})
	secret := w.say("", "Bob", "secret")
	require.Equal(t, 2, w.sync().Put)
	w.fake.React(channelID, a)
	r := w.sync()
	require.Zero(t, r.Put+r.Touched)
	w.fake.Block(channelID, secret)
	require.Equal(t, 1, w.sync().Deleted)
}

func TestMessagesOlderThanTheDeltaReachesAreListed(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 3
	for i := range 7 {
		w.say("", "Ann", fmt.Sprint("word", i))
	}
	w.fake.Pass(365 * 24 * time.Hour)
	w.say("", "Ann", "recent")
	require.Equal(t, 8, w.sync().Put)
}

func TestAThreadWithMoreRepliesThanAreExpandedIsWhole(t *testing.T) {
	w := newWorld(t)
	w.fake.MaxReplies = 4
	w.fake.PageSize = 3
	root := w.say("", "Ann", "root")
	for i := range 15 {
		w.say(root, "Bob", fmt.Sprint("reply", i, "."))
	}
	w.sync()
}

func TestOldThreadsAreNotAskedForAgain(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.say("", "Ann", fmt.Sprint("old", i))
	}
	w.fake.Pass(30 * 24 * time.Hour)
	w.say("", "Ann", "new")
	w.sync()
	w.fake.Requests()
	w.sync()
	var replies, deltas int
	for _, path := range w.fake.Requests() {
		if strings.HasSuffix(path, "/replies") {
			replies++
		} else {
			deltas++
		}
	}
	require.Equal(t, 1, replies, "the recent thread's")
	require.Equal(t, 2, deltas, "messages and files")
	w.cfg.RecheckDays = teams.NoRecheck
	w.sync()
	require.Len(t, w.fake.Requests(), 2)
}

func TestAttachedFilesOfTheLibraryAreStored(t *testing.T) {
	w := newWorld(t)
	plan, notes := w.fake.File(w.folder, "plan.txt", "the plan"), w.fake.File(w.folder, "notes.txt", "the notes")
	w.fake.File(w.folder, "nobody attached this.txt", "x")
	a := w.say("", "Ann", "see", plan)
	reply := w.say(a, "Bob", "and", notes)
	require.Equal(t, 3, w.sync().Put)
	require.Contains(t, workertest.Text(w.docs()["message/"+a]), "see\n[file: plan.txt]")

	w.fake.Write(plan, "a better plan")
	require.Equal(t, 1, w.sync().Put, "a changed file")
	w.fake.Delete(plan)
	require.Equal(t, 1, w.sync().Deleted, "a deleted file")
	w.fake.Edit(channelID, reply, post(w, "Bob", "and nothing"))
	require.Equal(t, 1, w.sync().Deleted, "an attachment that was taken off")
	w.fake.Edit(channelID, reply, post(w, "Bob", "again", notes))
	require.Equal(t, 2, w.sync().Put)
	w.fake.Remove(channelID, a)
	require.Equal(t, 2, w.sync().Deleted, "a thread goes with its files")
}

func TestAFileElsewhereIsNotRead(t *testing.T) {
	w := newWorld(t)
	_, other := w.fake.NewDrive("Salaries", "hr")
	salaries := w.fake.File(other, "salaries.txt", "secret")
	a := w.fake.Say(channelID, "", fakegraph.Post{Author: "Mallory", HTML: "look", Files: map[string]string{"salaries.txt": w.fake.URL(salaries)}})
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"message/" + a}, w.store.IDs())
	require.Empty(t, w.fake.Downloads())
}

func TestAnAttachmentWithoutPermissionFailsAloneAndIsReadOnceItIsGranted(t *testing.T) {
	w := newWorld(t)
	plan := w.fake.File(w.folder, "plan.txt", "the plan")
	w.say("", "Ann", "see", plan)
	w.fake.Forbid(plan, true)
	r := w.sync()
	require.Equal(t, 1, r.Failed)
	require.Zero(t, w.sync().Failed)
	w.fake.Forbid(plan, false)
	require.Equal(t, 1, w.sync().Put)
}

func TestAnAttachmentThatVanishesIsNoFailure(t *testing.T) {
	w := newWorld(t)
	plan := w.fake.File(w.folder, "plan.txt", "the plan")
	w.say("", "Ann", "see", plan)
	var once sync.Once
	w.fake.Before(func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/download/") {
			once.Do(func() { w.fake.Delete(plan) })
		}
	})
	require.Equal(t, 1, w.sync().Put)
}

func TestAttachmentsCanBeLeftOut(t *testing.T) {
	w := newWorld(t)
	a := w.say("", "Ann", "see", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.cfg.NoAttachments = true
	_, err := w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"message/" + a}, w.ids())
	require.NotContains(t, w.fake.Requests(), "/v1.0/teams/team/channels/"+channelID+"/filesFolder")
}

func TestAKillBetweenEveryTwoPagesGoesOn(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 3
	for i := range 20 {
		a := w.say("", "Ann", fmt.Sprint("word", i, "."), w.fake.File(w.folder, fmt.Sprint(i, ".txt"), fmt.Sprint("text ", i)))
		w.say(a, "Bob", fmt.Sprint("answer", i, "."))
	}
	killed := errors.New("killed")
	kills := 0
	for {
		fresh := true
		w.store.OnCheckpoint = func(int) error {
			if fresh = !fresh; fresh {
				return killed
			}
			return nil
		}
		if _, err := w.try(t.Context()); err == nil {
			break
		}
		if kills++; kills > 50 {
			t.Fatal("it does not get on")
		}
	}
	require.Empty(t, w.differs())
	require.Positive(t, kills)
	downloads := w.fake.Downloads()
	require.Len(t, downloads, 20)
	for id, n := range downloads {
		require.Equal(t, 1, n, id)
	}
}

func TestAUselessTokenListsEverythingAgain(t *testing.T) {
	w := newWorld(t)
	a := w.say("", "Ann", "alpha")
	w.say("", "Ann", "beta", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.sync()
	w.fake.Downloads()
	w.fake.Remove(channelID, a)
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	r := w.sync()
	require.True(t, r.Restarted)
	require.Equal(t, 1, r.Deleted)
	require.Zero(t, r.Put)
	require.Empty(t, w.fake.Downloads())
}

func TestAnotherConfigurationStoresTheChannelAgainAndForgetsTheRest(t *testing.T) {
	w := newWorld(t)
	plan := w.fake.File(w.folder, "plan.txt", "the plan")
	w.say("", "Ann", "alpha", plan)
	b := w.say("", "Ann", "beta", plan)
	w.sync()
	w.store.Reconfigure()
	w.fake.Remove(channelID, b)
	r := w.sync()
	require.Equal(t, 2, r.Put)
	require.Equal(t, 2, r.Deleted)
}

func TestEveryFaultOnTheWayIsSurvived(t *testing.T) {
	for name, fault := range map[string]fakegraph.Fault{
		"throttled": fakegraph.Throttled, "unavailable": fakegraph.Unavailable, "reset": fakegraph.Reset, "truncated": fakegraph.Truncated,
	} {
		for _, path := range []string{"/messages", "/delta", "/download/", "/shares/", "/replies", "/filesFolder"} {
			t.Run(name+path, func(t *testing.T) {
				w := newWorld(t)
				w.fake.PageSize, w.fake.MaxReplies = 2, 1
				for i := range 5 {
					a := w.say("", "Ann", fmt.Sprint("word", i), w.fake.File(w.folder, fmt.Sprint(i, ".txt"), "text"))
					w.say(a, "Bob", "one")
					w.say(a, "Bob", "two")
				}
				w.fake.Inject(fault.On(path, 3))
				w.sync()
				w.sync()
			})
		}
	}
}

func TestWhatDoesNotExistIsAPermanentFailure(t *testing.T) {
	w := newWorld(t)
	for named, cfg := range map[string]teams.Config{
		"no_attachments": {Team: "team", Channel: "nowhere"},
		"team_id":        {Channel: channelID},
		`"a/b" is not`:   {Team: "a/b", Channel: channelID},
		"recheck_days":   {Team: "a", Channel: "b", RecheckDays: 1000},
		"channel_id":     {Team: "team", Channel: "nowhere", NoAttachments: true},
	} {
		w.cfg = cfg
		_, err := w.try(t.Context())
		if named == "no_attachments" {
			require.Error(t, err)
			continue
		}
		require.ErrorIs(t, err, worker.ErrPermanent, named)
		require.ErrorContains(t, err, named)
	}
}

func TestLinksToAnotherHostAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	for _, field := range []string{"delta", "files"} {
		state := map[string]any{"listed": true, "drive": w.drive, "folder": w.folder, "delta": w.fake.Endpoint() + "/x",
			"files": w.fake.Endpoint() + "/drives/" + w.drive + "/items/" + w.folder + "/delta"}
		state[field] = "http://evil.example/v1.0/x"
		w.store.SetRawState(map[string]any{"cursor": state})
		_, err := w.try(t.Context())
		require.ErrorContains(t, err, "link is refused", field)
	}
}
