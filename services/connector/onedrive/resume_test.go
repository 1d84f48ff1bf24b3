package onedrive_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/onedrive"
)

func TestAUselessTokenListsEverythingAgainAndReadsNothingTwice(t *testing.T) {
	for _, kind := range []string{"resyncChangesApplyDifferences", "resyncChangesUploadDifferences"} {
		w := newWorld(t)
		w.fake.PageSize = 4
		folder := w.fake.Folder(w.root, "a")
		ids := w.files(folder, 10)
		w.sync()
		w.fake.Downloads()
		w.fake.Delete(ids[0])
		w.fake.Write(ids[1], "changed")
		w.fake.Rename(folder, "b")
		w.fake.ExpireTokens(kind)
		r := w.sync()
		require.True(t, r.Restarted, kind)
		require.Equal(t, 1, r.Deleted)
		require.Equal(t, map[string]int{ids[1]: 1}, w.fake.Downloads())
		require.False(t, w.sync().Restarted)
	}
}

func TestATokenThatExpiresBetweenPagesStartsAgain(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 2
	w.files(w.root, 9)
	w.sink.OnCheckpoint = func(n int) error {
		if n == 2 {
			w.fake.ExpireTokens("resyncChangesApplyDifferences")
		}
		return nil
	}
	require.True(t, w.sync().Restarted)
	downloads := w.fake.Downloads()
	require.Len(t, downloads, 9)
	for id, n := range downloads {
		require.Equal(t, 1, n, id)
	}
}

func TestAKillBetweenEveryTwoPagesDoublesNothing(t *testing.T) {
	killed := errors.New("killed")
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		w.fake.PageSize = 5
		folder := w.fake.Folder(w.root, "a")
		w.files(folder, 20)
		w.files(w.root, 17)
		ids := maps.Clone(w.fake.Contents(w.root))
		kills := 0
		fetched := map[string]int{}
		for {
			fresh := true
			w.sink.OnCheckpoint = func(int) error {
				if fresh = !fresh; fresh { // every second page of each try
					return killed
				}
				return nil
			}
			_, err := onedrive.Sync(t.Context(), w.cfg, w.options(), w.sink)
			for id, n := range w.fake.Downloads() {
				fetched[id] += n
			}
			if err == nil {
				w.sink.Complete()
				break
			}
			require.ErrorIs(t, err, killed)
			w.sink.Killed(lost && kills == 3)
			if kills++; kills > 100 {
				t.Fatal("it does not get on")
			}
		}
		w.equal()
		require.Positive(t, kills)
		twice := 0
		for id := range ids {
			require.Positive(t, fetched[id])
			twice += fetched[id] - 1
		}
		require.Zero(t, twice, "what is stored with its token is not read again")
	}
}

func TestAKillInTheMiddleOfAnyPageGoesOn(t *testing.T) {
	for after := 1; after <= 12; after++ {
		w := newWorld(t)
		w.fake.PageSize = 3
		w.files(w.root, 12)
		n := 0
		opts := w.options()
		opts.Workers = 1
		w.sink.OnPut = func(worker.Document) error {
			if n++; n == after {
				return errors.New("killed")
			}
			return nil
		}
		_, err := onedrive.Sync(t.Context(), w.cfg, opts, w.sink)
		require.Error(t, err)
		w.sink.Killed(after%2 == 0)
		w.sink.OnPut = nil
		w.sync()
		extra := 0
		for _, times := range w.fake.Downloads() {
			extra += times - 1
		}
		require.LessOrEqual(t, extra, 3, "under one page is read twice")
	}
}

func TestAnotherConfigurationListsEverythingAndForgetsTheRest(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 3
	a, b := w.fake.Folder(w.root, "a"), w.fake.Folder(w.root, "b")
	w.files(a, 7)
	w.files(b, 7)
	w.cfg.Item = a
	w.sync()
	w.sink.Reconfigure()
	w.cfg.Item = b
	w.sink.OnCheckpoint = func(n int) error {
		if n == 4 {
			return errors.New("killed")
		}
		return nil
	}
	_, err := w.try(t.Context())
	require.Error(t, err)
	w.sink.OnCheckpoint = nil
	r := w.sync()
	require.Equal(t, 7, r.Deleted)
}

func TestAStoredDocumentThatVanishedDuringAnInterruptedListingIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 2
	ids := w.files(w.root, 8)
	stop := 0
	w.sink.OnCheckpoint = func(int) error {
		if stop--; stop == 0 {
			return errors.New("killed")
		}
		return nil
	}
	stop = 1 // before any checkpoint
	_, err := w.try(t.Context())
	require.Error(t, err)
	w.fake.Delete(ids[0])
	stop = 2
	_, err = w.try(t.Context())
	require.Error(t, err)
	w.sync()
	require.NotContains(t, w.sink.IDs(), ids[0])
}

func TestARenamedFolderIsFollowedWhereNoFolderIsHeld(t *testing.T) {
	w := newWorld(t)
	top := w.fake.Folder(w.root, "Top")
	w.files(top, 3)
	w.sync()
	w.heldBytes = 1
	w.fake.Folder(top, "Empty")
	w.fake.Rename(top, "Renamed")
	w.sync()
}

func TestAFolderThatIsGoneStaysSoWhereNoFolderIsHeld(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 1
	top := w.fake.Folder(w.root, "Top")
	w.files(w.fake.Folder(top, "Deep"), 3)
	w.cfg.Item = w.fake.Folder(w.root, "Synced")
	w.fake.Move(top, w.cfg.Item)
	w.sync()
	w.heldBytes = 1
	w.fake.Move(top, w.root)
	for i := range 5 {
		w.fake.Folder(w.cfg.Item, fmt.Sprint("new ", i))
	}
	w.sync()
}

// What changes while a round is read is left to the next one.
func TestWhatIsEditedWhileEverythingIsListedAgainStays(t *testing.T) {
	for _, again := range []int{0, 12} { // requests of the listing, and of the changes after it
		w := newWorld(t)
		w.fake.PageSize = 10
		ids := w.files(w.root, 100)
		w.sync()
		gone := w.fake.File(w.root, "gone.txt", "gone")
		w.sync()
		w.fake.ExpireTokens("resyncChangesApplyDifferences")
		w.fake.Delete(gone)
		asked := 0
		w.fake.Before(func(r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/delta") {
				return
			}
			if asked++; asked == 4 || asked == again {
				for _, id := range ids[60:90] {
					w.fake.Write(id, fmt.Sprint("edited meanwhile ", asked, id))
				}
			}
		})
		r, err := w.try(t.Context())
		w.fake.Before(nil)
		require.NoError(t, err)
		require.Equal(t, 1, r.Deleted)
		w.sync()
	}
}

func TestASyncThatDiesAfterAFolderHasGoneRemovesWhatWasInIt(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 1
	top := w.fake.Folder(w.root, "Top")
	w.files(w.fake.Folder(top, "Deep"), 3)
	stays := w.files(w.root, 3)
	w.sync()
	w.fake.Delete(top)
	for _, id := range stays {
		w.fake.Write(id, "new text of "+id)
	}
	w.killedAt(2)
	require.Len(t, w.sink.IDs(), 6)
	require.Equal(t, 3, w.sync().Deleted)
}

// hiding is a service that leaves files out of its answers for a while.
type hiding struct {
	http.RoundTripper
	hidden []string
}

func (h hiding) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasSuffix(r.URL.Path, "/delta") {
		return resp, err
	}
	var page map[string]any
	err = json.NewDecoder(resp.Body).Decode(&page)
	_ = resp.Body.Close()
	page["value"] = slices.DeleteFunc(page["value"].([]any), func(v any) bool {
		return slices.Contains(h.hidden, v.(map[string]any)["id"].(string))
	})
	body, _ := json.Marshal(page)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, err
}

func TestAListingThatSuddenlyShowsLittleRemovesNothingAndTheNextTryAsksForEverythingAgain(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 10
	ids := w.files(w.root, 100)
	w.sync()
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	opts := w.options()
	opts.API = &http.Client{Transport: hiding{opts.API.Transport, ids[:60]}}
	for range 2 {
		_, err := onedrive.Sync(t.Context(), w.cfg, opts, w.sink)
		require.ErrorContains(t, err, "60 of the 100 documents")
		require.NotErrorIs(t, err, worker.ErrPermanent)
		require.Len(t, w.sink.IDs(), 100)
		w.sink.End(err)
	}
	w.fake.Delete(ids[0])
	r := w.sync()
	require.Equal(t, 1, r.Deleted)
	require.Zero(t, r.Put)
	require.GreaterOrEqual(t, r.Unchanged, 99)
}

func TestAFolderThatWasRenamedIsFollowedAlsoWhereAListingIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	top := w.fake.Folder(w.root, "Projects")
	ids := w.files(top, 50)
	w.cfg.Folder = "Projects"
	_, err := w.try(t.Context())
	require.NoError(t, err)
	w.fake.Rename(top, "Work")
	for _, id := range ids[:40] {
		w.fake.Delete(id)
	}
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	_, err = w.try(t.Context())
	require.ErrorIs(t, err, worker.ErrRelist)
	w.sink.Allows = true
	r, err := w.try(t.Context())
	require.NoError(t, err)
	require.Equal(t, 40, r.Deleted)
	require.Len(t, w.sink.IDs(), 10)
}

func TestAListingThatShowsLittleRemovesTheRestOnceItsOwnerAllowsThat(t *testing.T) {
	w := newWorld(t)
	ids := w.files(w.root, 100)
	w.sync()
	w.fake.ExpireTokens("resyncChangesApplyDifferences")
	for _, id := range ids[:60] {
		w.fake.Delete(id)
	}
	_, err := w.try(t.Context())
	require.ErrorContains(t, err, "60 of the 100 documents")
	w.sink.Allows = true
	require.Equal(t, 60, w.sync().Deleted)
}

func TestARoundWithDeletedFoldersThatHeldNothingIsCheckpointed(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 5
	w.files(w.root, 20)
	w.sync()
	before := w.sink.Checkpoints()
	for range 30 {
		w.fake.Delete(w.fake.Folder(w.root, "short-lived"))
	}
	w.files(w.root, 20)
	r := w.sync()
	require.Equal(t, r.Pages-1+before, w.sink.Checkpoints())
}
