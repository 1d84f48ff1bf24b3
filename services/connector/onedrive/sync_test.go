package onedrive_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/testonly/fakegraph"
)

func TestAFirstSyncStoresEveryFile(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 3
	projects := w.fake.Folder(w.root, "Projects & more")
	w.files(w.root, 4)
	w.files(projects, 5)
	w.fake.File(w.root, "empty.txt", "")
	r := w.sync()
	require.Equal(t, 10, r.Put)
	require.Equal(t, 4, r.Pages)
	require.Equal(t, 3, w.sink.Checkpoints())
}

func TestChangesCostOneRequest(t *testing.T) {
	w := newWorld(t)
	folder := w.fake.Folder(w.root, "a")
	ids := w.files(folder, 20)
	w.sync()
	w.fake.Requests()
	for _, id := range ids[:10] {
		w.fake.Write(id, "other text of "+id)
	}
	r := w.sync()
	require.Equal(t, counts(source.Result{Listed: 10, Put: 10}), r)
	require.Len(t, w.fake.Requests(), 1)

	r = w.sync()
	require.Equal(t, counts(source.Result{}), r)
	require.Len(t, w.fake.Requests(), 1)
}

func TestARenamedFileIsTouchedWithoutBeingRead(t *testing.T) {
	for _, business := range []bool{false, true} {
		w := newWorld(t)
		w.fake.Business = business
		folder := w.fake.Folder(w.root, "a")
		id := w.fake.File(w.root, "old.txt", "text")
		w.sync()
		w.fake.Downloads()
		w.fake.Rename(id, "new.txt")
		require.Equal(t, counts(source.Result{Listed: 1, Touched: 1}), w.sync(), "business %v", business)
		w.fake.Move(id, folder)
		require.Equal(t, 1, w.sync().Touched)
		require.Empty(t, w.fake.Downloads())
	}
}

func TestARenamedFolderGivesItsFilesTheirNewURLs(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 2
	outer := w.fake.Folder(w.root, "outer")
	inner := w.fake.Folder(outer, "inner")
	w.files(outer, 3)
	w.files(inner, 5)
	w.files(w.root, 2)
	w.sync()
	w.fake.Downloads()
	w.fake.Rename(outer, "renamed")
	require.Equal(t, 8, w.sync().Touched)
	w.fake.Move(inner, w.root)
	require.Equal(t, 5, w.sync().Touched)
	require.Empty(t, w.fake.Downloads(), "nothing is read again")
	require.Zero(t, w.sync().Touched)
}

func TestADeletedFolderTakesItsFilesWithIt(t *testing.T) {
	for _, reported := range []bool{false, true} {
		w := newWorld(t)
		w.fake.ReportBelow = reported
		outer := w.fake.Folder(w.root, "outer")
		inner := w.fake.Folder(outer, "inner")
		w.files(outer, 3)
		kept := w.files(inner, 3)
		w.sync()
		w.fake.Move(kept[0], w.root)
		w.fake.Delete(outer)
		require.Equal(t, 5, w.sync().Deleted, "reported %v", reported)
		require.Equal(t, kept[:1], w.sink.IDs())
	}
}

func TestAFolderThatMovedOutOfADeletedOneKeepsItsFiles(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 1 // the folder that moved and the deleted one come on different pages
	outer := w.fake.Folder(w.root, "outer")
	inner := w.fake.Folder(outer, "inner")
	ids := w.files(inner, 2)
	w.files(outer, 1)
	w.sync()
	w.fake.Move(inner, w.root)
	w.fake.Delete(outer)
	require.Equal(t, 1, w.sync().Deleted)
	require.ElementsMatch(t, ids, w.sink.IDs())
}

func TestOnlyTheConfiguredFolderIsSynced(t *testing.T) {
	w := newWorld(t)
	in, out := w.fake.Folder(w.root, "in"), w.fake.Folder(w.root, "out")
	sub := w.fake.Folder(in, "sub")
	mine, others := w.files(in, 2), w.files(out, 2)
	deep := w.files(sub, 2)
	w.cfg.Item = in
	require.Equal(t, 4, w.sync().Put)

	w.fake.Move(mine[0], out)
	w.fake.Move(others[0], in)
	r := w.sync()
	require.Equal(t, 1, r.Deleted, "what moved out is removed")
	require.Equal(t, 1, r.Put, "what moved in is stored")

	w.fake.Move(sub, out)
	require.Equal(t, len(deep), w.sync().Deleted, "with a folder that moved out, what lies in it")
	w.fake.Move(sub, in)
	require.Equal(t, len(deep), w.sync().Put)
	w.fake.Rename(in, "renamed")
	w.sync()
}

func TestAFolderIsFoundByItsPathAndFollowedByItsID(t *testing.T) {
	w := newWorld(t)
	year := w.fake.Folder(w.fake.Folder(w.root, "Projects"), "2026 (new)")
	w.files(year, 2)
	w.files(w.root, 1)
	w.cfg.Folder = "Projects/2026 (new)"
	w.fake.Requests()
	require.Equal(t, 2, w.sync2(year).Put)
	w.fake.Rename(year, "2026")
	w.sync2(year)
}

// sync2 is sync where the folder is configured by its path.
func (w *world) sync2(folder string) onedrive.Result {
	w.t.Helper()
	r, err := w.try(w.t.Context())
	require.NoError(w.t, err)
	path := w.cfg
	w.cfg.Item = folder
	defer func() { w.cfg = path }()
	w.equal()
	return r
}

func TestDrivesAreFoundBySiteLibraryGroupAndUser(t *testing.T) {
	w := newWorld(t)
	site, siteRoot := w.fake.NewDrive("Shared Documents", "contoso.sharepoint.com:/sites/A team")
	plans, plansRoot := w.fake.NewDrive("Plans", "host,guid,guid")
	user, userRoot := w.fake.NewDrive("OneDrive", "ann@contoso.com")
	for _, c := range []struct {
		cfg         onedrive.Config
		drive, root string
	}{
		{onedrive.Config{}, w.drive, w.root},
		{onedrive.Config{Site: "contoso.sharepoint.com:/sites/A team"}, site, siteRoot},
		{onedrive.Config{Site: "host,guid,guid", Library: "plans"}, plans, plansRoot},
		{onedrive.Config{User: "ann@contoso.com"}, user, userRoot},
		{onedrive.Config{Group: "ann@contoso.com"}, user, userRoot},
	} {
		v := *w
		v.cfg, v.drive, v.root = c.cfg, c.drive, c.root
		w.fake.File(c.root, "of "+c.drive, c.drive)
		v.sink = newWorld(t).sink
		v.sync()
		require.NotEmpty(t, v.sink.IDs())
	}
}

func TestWhatDoesNotExistIsAPermanentFailureThatNamesIt(t *testing.T) {
	w := newWorld(t)
	file := w.fake.File(w.root, "a.txt", "a")
	for named, cfg := range map[string]onedrive.Config{
		"drive_id nowhere":  {Drive: "nowhere"},
		"item_id nothing":   {Drive: w.drive, Item: "nothing"},
		"folder No/Such":    {Drive: w.drive, Folder: "No/Such"},
		"it is not a fol":   {Drive: w.drive, Item: file},
		"user nobody":       {User: "nobody"},
		`library: "Nowhere`: {Site: "contoso", Library: "Nowhere"},
		"exclude each oth":  {Drive: "a", User: "b"},
		"folder: ":          {Folder: "../up"},
		"max_file_bytes: -": {MaxFileBytes: -1},
	} {
		w.cfg = cfg
		_, err := w.try(t.Context())
		require.ErrorIs(t, err, worker.ErrPermanent, named)
		require.ErrorContains(t, err, named)
	}
}

func TestLinksToAnotherHostAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 1)
	for _, link := range []string{
		"http://evil.example/v1.0/delta", "http://user@" + strings.TrimPrefix(w.fake.Endpoint(), "http://"), "file:///etc/passwd",
		w.fake.Endpoint() + "/" + strings.Repeat("x", 30<<10),
	} {
		w.sink.SetRawState(map[string]any{
			"place": map[string]any{"at": map[string]any{"drive": w.drive, "root": w.root, "whole": true}}, "cursor": map[string]any{"link": link},
		})
		_, err := w.try(t.Context())
		require.ErrorIs(t, err, worker.ErrPermanent)
		require.ErrorContains(t, err, "link is refused")
	}
	require.Empty(t, w.fake.Requests())
}

func TestTheSameItemOnSeveralPagesIsStoredAsItsLast(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize, w.fake.RepeatItems = 3, true
	w.files(w.root, 11)
	w.sync()
	for _, id := range w.sink.IDs() {
		w.fake.Rename(id, "renamed "+id)
	}
	w.sync()
}

func TestSyncEndsWithItsContextAndItsSink(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 5)
	ctx, cancel := context.WithCancel(t.Context())
	w.sink.OnPut = func(worker.Document) error { cancel(); return ctx.Err() }
	_, err := w.try(ctx)
	require.ErrorIs(t, err, context.Canceled)
	fenced := errors.New("fenced")
	w.sink.OnPut = func(worker.Document) error { return fenced }
	_, err = w.try(t.Context())
	require.ErrorIs(t, err, fenced)
}

func TestTooManyFilesAreAPermanentFailure(t *testing.T) {
	w := newWorld(t)
	w.fake.PageSize = 3
	w.cfg.MaxFiles = 5
	w.files(w.root, 12)
	_, err := w.try(t.Context())
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "max_files")
}

// What a sync is about to delete counts for nothing.
func TestMaxFilesCountsWhatIsInTheDriveAndNotWhatWasThereBefore(t *testing.T) {
	t.Run("another folder", func(t *testing.T) {
		w := newWorld(t)
		a, b := w.fake.Folder(w.root, "a"), w.fake.Folder(w.root, "b")
		w.files(a, 60)
		w.files(b, 60)
		w.cfg.MaxFiles, w.cfg.Item = 100, a
		w.sync()
		w.cfg.Item = b
		w.sink.Reconfigure()
		w.sync()
	})
	for _, expired := range []bool{true, false} {
		t.Run(fmt.Sprint("others in their place, tokens expired ", expired), func(t *testing.T) {
			w := newWorld(t)
			w.cfg.MaxFiles, w.sink.Allows = 100, true
			w.fake.PageSize = 10
			ids := w.files(w.root, 60)
			w.sync()
			w.files(w.fake.Folder(w.root, "new"), 60)
			for _, id := range ids {
				w.fake.Delete(id)
			}
			if expired {
				w.fake.ExpireTokens("resyncChangesApplyDifferences")
			}
			w.sync()
		})
	}
}

func TestFewTooManyFilesFailTheSyncAtItsEnd(t *testing.T) {
	w := newWorld(t)
	w.cfg.MaxFiles = 5
	ids := w.files(w.root, 6)
	_, err := w.try(t.Context())
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "max_files")
	w.fake.Delete(ids[0])
	w.sync()
}

func TestALostPermissionForTheWholeDriveIsPermanent(t *testing.T) {
	w := newWorld(t)
	w.files(w.root, 1)
	w.sync()
	w.fake.Inject(fakegraph.Fault{Path: "/delta", Times: 1, Status: http.StatusForbidden, Code: "accessDenied"})
	_, err := w.try(t.Context())
	require.ErrorIs(t, err, worker.ErrPermanent)
	require.ErrorContains(t, err, "may not read it")
	w.sync()
	require.Len(t, w.sink.IDs(), 1)
}

func TestManyFoldersDeepAreFollowed(t *testing.T) {
	w := newWorld(t)
	at := w.root
	var folders []string
	for i := range 120 {
		at = w.fake.Folder(at, fmt.Sprint("folder ", i))
		folders = append(folders, at)
		w.fake.File(at, "f.txt", fmt.Sprint("text ", i))
	}
	w.sync()
	require.True(t, slices.ContainsFunc(w.sink.IDs(), func(string) bool { return true }))
	w.fake.Rename(folders[0], "renamed")
	w.sync()
	w.fake.Move(folders[60], w.root)
	w.sync()
	w.fake.Delete(folders[0])
	w.sync()
	w.fake.Delete(folders[60])
	w.sync()
	require.Empty(t, w.sink.IDs())
}
