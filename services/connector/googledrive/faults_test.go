package googledrive_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/internal/answer"
	"github.com/echomind/sync/testonly/fakedrive"
)

func TestAKillBetweenEveryTwoPagesContinues(t *testing.T) {
	for name, folder := range map[string]bool{"a whole drive": false, "a folder": true} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/committed=%v", name, after), func(t *testing.T) {
				f := newFixture(t)
				f.MaxPage = 4
				top := f.Folder(root, "Top")
				var ids []string
				for i := range 7 {
					sub := f.Folder(top, fmt.Sprint("Sub", i))
					for j := range 5 {
						ids = append(ids, f.File(sub, fmt.Sprintf("%d-%d.txt", i, j), "text/plain", fmt.Sprint("words ", i, j)))
					}
				}
				f.Shortcut(top, "inside", ids[0])
				f.Shortcut(top, "outside", f.File("", "shared.txt", "text/plain", "shared words"))
				if folder {
					f.cfg = googledrive.Config{FolderID: top}
				}
				// The checkpoint after a page is committed, or is not: then the page is listed again.
				f.store.kill = func(checkpoint int) (bool, bool) { return !after && checkpoint == 2, after && checkpoint == 1 }
				kills := 0
				for ; kills < 100; kills++ {
					_, err := f.try()
					if err == nil {
						break
					}
					require.ErrorIs(t, err, errKilled)
				}
				require.GreaterOrEqual(t, kills, 9)
				require.Less(t, kills, 100, "it does not come to its end")
				require.Len(t, f.store.files(), 37)
				for _, id := range ids {
					require.Equal(t, 1, f.Reads(id), "a content is read once")
					if after {
						require.Equal(t, 1, f.Listed(id), "no page is listed twice")
					} else {
						require.LessOrEqual(t, f.Listed(id), 2, "a kill costs one page")
					}
				}
				require.Equal(t, 1, f.store.begun, "it is one listing")
				require.Contains(t, f.store.files(), "outside")
			})
		}
	}
}

func TestADocumentWhoseReaderWasKilledIsReadAgainAtTheNextSync(t *testing.T) {
	f := newFixture(t)
	for i := range 30 {
		f.File(root, fmt.Sprint(i, ".txt"), "text/plain", "words")
	}
	f.opts.Extract = killed{}
	require.Equal(t, 30, f.sync().Failed, "however many there are")
	f.opts.Extract = text{}
	require.Equal(t, 30, f.sync().Put)
}

func TestAPageOfMillionsOfEmptyItemsIsRefused(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"startPageToken":"1","id":"root","driveId":"root","files":[{}`)
		for range 1000 {
			_, _ = io.WriteString(w, strings.Repeat(",{}", 1000))
		}
	}))
	defer api.Close()
	f := newFixture(t)
	f.opts.Endpoint = api.URL
	_, err := f.try()
	require.ErrorIs(t, err, answer.ErrTooLarge)
}

func TestAnExpiredPageTokenListsAgainWithoutReadingAgain(t *testing.T) {
	f := newFixture(t)
	f.MaxPage = 3
	var ids []string
	for i := range 20 {
		ids = append(ids, f.File(root, fmt.Sprintf("%d.txt", i), "text/plain", fmt.Sprint("words ", i)))
	}
	f.store.kill = func(checkpoint int) (bool, bool) { return false, checkpoint == 5 }
	_, err := f.try()
	require.ErrorIs(t, err, errKilled)
	f.store.kill = nil
	f.ExpireTokens()
	f.Delete(ids[0])
	r := f.sync()
	require.True(t, r.Restarted)
	require.Len(t, f.store.Docs(), 19, "what was stored and has gone since is gone")

	f.ExpireTokens() // of the feed
	f.Delete(ids[1])
	f.Write(ids[2], "changed")
	r = f.again()
	require.True(t, r.Restarted)
	require.Equal(t, 1, f.Reads(""), "only what has changed is read")
	require.Len(t, f.store.Docs(), 18)
}

func TestARelistingThatIsKilledGoesOnAndDeletesWhatHasGone(t *testing.T) {
	f := newFixture(t)
	f.MaxPage = 3
	var ids []string
	for i := range 20 {
		ids = append(ids, f.File(root, fmt.Sprintf("%d.txt", i), "text/plain", fmt.Sprint("words ", i)))
	}
	f.sync()
	f.ExpireTokens()
	f.Delete(ids[3])
	f.Delete(ids[15])
	f.store.kill = func(checkpoint int) (bool, bool) { return false, checkpoint == 4 }
	_, err := f.try()
	require.ErrorIs(t, err, errKilled)
	f.store.kill = nil
	f.again()
	require.Equal(t, 4, f.Calls("list"), "pages before the checkpoint are not listed again")
	require.Zero(t, f.Reads(""))
	require.Len(t, f.store.Docs(), 18)
}

func TestASharedDriveThatComesDuringAListingIsListedToo(t *testing.T) {
	f := newFixture(t)
	f.MaxPage = 2
	for i := range 10 {
		f.File(root, fmt.Sprintf("%d.txt", i), "text/plain", "words")
	}
	f.cfg = googledrive.Config{IncludeSharedDrives: true}
	f.store.kill = func(checkpoint int) (bool, bool) { return false, checkpoint == 3 }
	_, err := f.try()
	require.ErrorIs(t, err, errKilled)
	f.File(f.Drive("New"), "new.txt", "text/plain", "new")
	f.store.kill = func(checkpoint int) (bool, bool) { return false, checkpoint == 1 }
	_, err = f.try()
	require.ErrorIs(t, err, errKilled)
	f.store.kill = nil
	f.sync()
	require.Contains(t, f.store.files(), "new.txt")
	require.Len(t, f.store.files(), 11)
}

func TestPagesThatRepeatAnItemDoubleNothing(t *testing.T) {
	f := newFixture(t)
	f.RepeatItems, f.MaxPage = true, 3
	for i := range 10 {
		f.File(root, fmt.Sprintf("%d.txt", i), "text/plain", fmt.Sprint("words ", i))
	}
	r := f.sync()
	require.Equal(t, 10, r.Put)
	require.Len(t, f.store.put, 10)
}

func TestAnAnswerThatBreaksOffIsAskedForAgain(t *testing.T) {
	for _, fault := range []fakedrive.Fault{fakedrive.Truncated, fakedrive.ResetMidway} {
		for _, kind := range []string{"list", "changes", "get", "media", "export", "start"} {
			if kind == "export" && fault.Cut {
				continue // an export has neither size nor checksum: half of it that says it is whole cannot be told
			}
			t.Run(fmt.Sprintf("%s/cut=%v", kind, fault.Cut), func(t *testing.T) {
				f := newFixture(t)
				a := f.File(root, "a.txt", "text/plain", strings.Repeat("many words ", 5000))
				d := f.Doc(root, "D", fakedrive.DocumentType, strings.Repeat("words of a doc ", 5000))
				f.Inject(fault.On(kind, 2))
				f.sync()
				require.Zero(t, f.Heal())
				require.Empty(t, f.store.Docs()[a].Err)
				require.Empty(t, f.store.Docs()[d].Err)
			})
		}
	}
}

func TestAFileThatNeverComesWholeFailsAlone(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", strings.Repeat("many words ", 500))
	f.File(root, "b.txt", "text/plain", "b")
	f.Inject(fakedrive.Truncated.On("media", 100).Of(a))
	r := f.sync()
	require.Equal(t, 1, r.Failed)
	require.Equal(t, "(failed: the answer is incomplete)", f.store.text(a))
	f.Heal()
	f.sync()
	require.Contains(t, f.store.text(a), "many words")
}

func TestReasonsOfOneDocumentFailThatDocument(t *testing.T) {
	for reason, want := range map[string]string{
		"insufficientFilePermissions": "ask its owner for access",
		"cannotDownloadFile":          "may not download it",
		"downloadQuotaExceeded":       "downloaded too often",
		"cannotDownloadAbusiveFile":   "malware or spam",
		"somethingNew":                "answered 403 somethingNew",
	} {
		t.Run(reason, func(t *testing.T) {
			f := newFixture(t)
			a := f.File(root, "a.txt", "text/plain", "a")
			b := f.File(root, "b.txt", "text/plain", "b")
			f.Inject(fakedrive.Fault{Times: 1000, Status: 403, Reason: reason, Kind: "media", ID: a})
			f.sync()
			require.Contains(t, f.store.text(a), want)
			require.Equal(t, "b", f.store.text(b))
			r := f.again()
			require.Empty(t, f.store.put, "a failure that is stored is not stored again")
			require.Equal(t, 0, r.Failed)
		})
	}
}

func TestAPermissionThatIsGrantedIsFoundWithoutAChange(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", "a")
	f.Inject(fakedrive.NoPermission.On("media", 1))
	f.sync()
	require.Contains(t, f.store.text(a), "failed")
	f.again()
	require.Equal(t, "a", f.store.text(a))
	f.AllowDownload(a, false)
	f.again()
	require.Contains(t, f.store.text(a), "canDownload is false")
	require.Zero(t, f.Reads(a))
	f.again()
	require.Equal(t, 1, f.Calls(), "it is not even tried")
	f.AllowDownload(a, true)
	f.again()
	require.Equal(t, "a", f.store.text(a))
}

// What kills who stores it is given up: nothing is kept of it but that it is there.
func TestWhatWasGivenUpIsFetchedAgainWithoutAChange(t *testing.T) {
	f := newFixture(t)
	folder := f.Folder(root, "folder")
	a, below := f.File(root, "a.txt", "text/plain", "a"), f.File(folder, "below.txt", "text/plain", "below")
	gone := f.File(root, "gone.txt", "text/plain", "gone")
	target := f.File("", "target.txt", "text/plain", "the target's")
	shortcut := f.Shortcut(root, "shortcut", target)
	f.sync()
	stored := map[string]string{}
	for _, id := range []string{a, below, shortcut} {
		stored[id] = f.store.text(id)
	}
	f.Delete(gone)
	f.store.GiveUp(a, below, folder, shortcut, gone)
	f.again()
	for id, text := range stored {
		require.Equal(t, text, f.store.text(id), id)
	}
	require.NotContains(t, f.store.files(), "gone.txt")
	f.again()
	require.Empty(t, f.store.put, "once")
}

// TestQuotaEndsTheSync is for a client that does not wait for itself; the service's own does, and its error ends the
// sync too.
func TestQuotaEndsTheSync(t *testing.T) {
	for _, fault := range []fakedrive.Fault{fakedrive.Throttled, fakedrive.TooMany, fakedrive.Activity, fakedrive.DailyLimit} {
		for _, kind := range []string{"list", "media", "changes"} {
			t.Run(fault.Reason+"/"+kind, func(t *testing.T) {
				f := newFixture(t)
				f.File(root, "a.txt", "text/plain", "a")
				f.Inject(fault.On(kind, 1))
				_, err := f.try()
				require.ErrorContains(t, err, fault.Reason)
				require.NotErrorIs(t, err, worker.ErrPermanent)
				f.sync()
				require.Equal(t, []string{"a.txt"}, f.store.files())
			})
		}
	}
}

type accountError struct{ error }

func (accountError) EndsSync() bool { return true }

type refusing struct {
	http.RoundTripper
	err error
}

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("alt") == "media" {
		return nil, r.err
	}
	return r.RoundTripper.RoundTrip(req)
}

func TestAnErrorOfTheAccountIsNoFailureOfADocument(t *testing.T) {
	f := newFixture(t)
	f.File(root, "a.txt", "text/plain", "a")
	reconnect := accountError{errors.New("connect the account again")}
	f.opts.Client.Transport = refusing{f.opts.Client.Transport, reconnect}
	_, err := f.try()
	require.ErrorIs(t, err, reconnect)
	require.Empty(t, f.store.files())
}

func TestAServiceThatIsAwayEndsTheSyncInsteadOfFailingEveryDocument(t *testing.T) {
	f := newFixture(t)
	for i := range 50 {
		f.File(root, fmt.Sprintf("%d.txt", i), "text/plain", "words")
	}
	afterTheRoot := fakedrive.Broken.On("get", 1000)
	afterTheRoot.Skip = 1
	f.Inject(fakedrive.Broken.On("media", 1000), afterTheRoot)
	_, err := f.try()
	require.ErrorContains(t, err, "20 items in a row")
	f.Heal()
	f.sync()
	for _, id := range f.store.IDs() {
		require.Equal(t, "words", f.store.text(id))
	}
}

func TestAnEndedContextAndASinkThatFailsEndTheSync(t *testing.T) {
	f := newFixture(t)
	f.File(root, "a.txt", "text/plain", "a")
	f.store.dies = func() bool { return true }
	_, err := f.try()
	require.Equal(t, errKilled, err)
}
