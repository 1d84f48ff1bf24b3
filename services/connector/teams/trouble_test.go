package teams_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/internal/fakegraph"
	"github.com/echomind/sync/services/connector/internal/trouble"
)

// attached posts threads with a file each.
func (w *world) attached(n int) {
	for i := range n {
		file := w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), fmt.Sprint("words ", i))
		w.say("", "Ann", fmt.Sprint("word", i), file)
	}
}

// Where the channel's folder itself answers, files that cannot be read are at fault, however many there are.
func TestAttachmentsThatCannotBeReadFailAloneHoweverManyThereAre(t *testing.T) {
	w := newWorld(t)
	w.attached(trouble.Most + 5)
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30))
	for range 2 {
		_, err := w.try(t.Context())
		require.NoError(t, err)
	}
	w.fake.Heal()
	w.sync()
}

func TestALibraryThatIsAwayEndsTheSyncInsteadOfFailingEveryAttachment(t *testing.T) {
	w := newWorld(t)
	w.attached(trouble.Most + 5)
	afterTheChanges := fakegraph.Broken.On("/items/", 1<<30)
	afterTheChanges.Skip = 1
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30), afterTheChanges)
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "20 files in a row")
	w.fake.Heal()
	w.sync()
}

// The next sync looks for another folder; what the channel says is read all the same.
func TestALibraryThatIsGoneMeanwhileFailsAttachmentsAndNotTheConnector(t *testing.T) {
	w := newWorld(t)
	w.attached(trouble.Most + 5)
	gone := fakegraph.Fault{Path: "/items/" + w.folder, Times: 1, Skip: 1, Status: http.StatusNotFound, Code: "itemNotFound"}
	w.fake.Inject(fakegraph.Broken.On("/download/", 1<<30), gone)
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.fake.Heal()
	w.sync()
}
