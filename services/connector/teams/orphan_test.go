package teams_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/fakegraph"
)

// orphan is a channel whose first sync died when it had stored an attachment and not its thread. The thread is deleted since.
func orphan(t *testing.T) (w *world, file, id string) {
	w = newWorld(t)
	other := "message/" + w.say("", "Ann", "hello")
	file = w.fake.File(w.folder, "plan.txt", "the plan")
	root := w.say("", "Ann", "look", file)
	id = "message/" + root + "/guid-of-plan.txt"
	w.store.OnPut = func(d worker.Document) error {
		if d.SourceID != "message/"+root {
			return nil
		}
		assert.Eventually(t, func() bool {
			stored := w.store.IDs()
			return slices.Contains(stored, id) && slices.Contains(stored, other)
		}, time.Minute, time.Millisecond)
		return errors.New("killed")
	}
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "killed")
	w.store.OnPut = nil
	w.fake.Remove(channelID, root)
	return w, file, id
}

func TestTheAttachmentOfADeletedThreadGoesThoughTheLibraryIsWorkedIn(t *testing.T) {
	t.Run("a folder is made", func(t *testing.T) {
		w, _, id := orphan(t)
		w.fake.Folder(w.folder, "new")
		require.Zero(t, w.sync().Put)
		require.NotContains(t, w.store.IDs(), id)
	})
	t.Run("the file is edited", func(t *testing.T) {
		w, file, id := orphan(t)
		w.fake.Write(file, "edited")
		require.Zero(t, w.sync().Put)
		require.NotContains(t, w.store.IDs(), id)
	})
}

func TestTheAttachmentOfALostThreadGoesThoughTheLibraryIsWorkedIn(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.say("", "Ann", fmt.Sprint("hello ", i))
	}
	root := w.say("", "Ann", "look", w.fake.File(w.folder, "plan.txt", "the plan"))
	w.sync()
	w.fake.Inject(fakegraph.Fault{Path: "/messages/" + root, Times: 1 << 30, Status: http.StatusNotFound, Code: "NotFound"})
	for n := range 2 {
		w.fake.Folder(w.folder, fmt.Sprint("new", n))
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	require.Len(t, w.store.IDs(), 10)
}

func TestAnEditIsReadThoughTheSyncThatLosesItsThreadDiesAndTheThreadIsThereAgain(t *testing.T) {
	w := newWorld(t)
	w.say("", "Ann", "hello")
	plan := w.fake.File(w.folder, "plan.txt", "the plan")
	root := w.say("", "Ann", "look", plan)
	w.sync()
	away := fakegraph.Fault{Path: "/messages/" + root, Times: 1 << 30, Status: http.StatusNotFound, Code: "NotFound"}
	w.fake.Inject(away)
	w.tries(1)
	w.fake.Write(plan, "the new plan")
	ctx, kill := context.WithCancel(t.Context())
	w.store.OnCheckpoint = func(int) error { kill(); return nil } // the one before the deletions
	_, err := w.try(ctx)
	require.ErrorIs(t, err, context.Canceled)
	w.store.OnCheckpoint = nil
	w.fake.Heal()
	w.tries(1)
	w.sync()
}
