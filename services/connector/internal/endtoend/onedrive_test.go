package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/fakereader"
	"github.com/echomind/sync/testonly/testkit"
)

// drive is a drive and the line that keeps it in sync.
type drive struct {
	*line
	fake *fakegraph.Server
	root string
}

func newDrive(t *testing.T) *drive {
	t.Parallel()
	fake := fakegraph.New()
	t.Cleanup(fake.Close)
	id, root := fake.NewDrive("Documents", "")
	return &drive{line: newLine(t, "onedrive", fmt.Sprintf(`{"drive_id": %q}`, id)), fake: fake, root: root}
}

func (d *drive) connector(wrap func(*worker.Run) source.Store) worker.Handler {
	return func(ctx context.Context, run *worker.Run) error {
		var cfg onedrive.Config
		if err := run.Config(&cfg); err != nil {
			return err
		}
		_, err := onedrive.Sync(ctx, cfg, onedrive.Options{
			Endpoint: d.fake.Endpoint(), API: d.fake.Client(), Plain: d.fake.Plain(), Extract: fakereader.Plain{},
		}, wrap(run))
		return err
	}
}

func plain(run *worker.Run) source.Store { return run }

func (d *drive) syncs() {
	d.Helper()
	require.Contains(d, []string{"completed", "skipped"}, d.sync(d.connector(plain)))
	d.equal()
}

func (d *drive) equal() {
	d.Helper()
	want := map[string]document{}
	for id, c := range d.fake.Contents(d.root) {
		if want[id] = (document{Title: c.Name, URL: c.URL, Text: c.Text}); c.Refused {
			want[id] = document{Title: c.Name, URL: c.URL, Err: "no permission to read this file (accessDenied)"}
		}
	}
	require.Equal(d, want, d.documents())
}

func TestADriveIsKeptInSync(t *testing.T) {
	d := newDrive(t)
	d.fake.PageSize = 3
	folder := d.fake.Folder(d.root, "folder")
	var ids []string
	for i := range 10 {
		ids = append(ids, d.fake.File(folder, fmt.Sprint(i, ".txt"), fmt.Sprint("the text of ", i)))
	}
	d.fake.Forbid(ids[9], true)
	d.syncs()
	require.Equal(t, "skipped", d.sync(d.connector(plain)))
	d.fake.Write(ids[0], "another text")
	d.fake.Rename(ids[1], "renamed.txt")
	d.fake.Delete(ids[2])
	d.fake.Rename(folder, "renamed")
	d.fake.Forbid(ids[9], false)
	d.syncs()
	d.fake.ExpireTokens("resyncChangesApplyDifferences")
	d.fake.Write(ids[3], "and another")
	d.syncs()
	d.exec(`UPDATE connectors SET config = config || '{"max_file_bytes": 1000}' WHERE id = $1`, d.id)
	d.fake.Delete(ids[4])
	d.syncs()
	d.fake.Delete(folder)
	d.syncs()
	require.Empty(t, d.documents())
}

// dying is a run that dies after a checkpoint of its own is committed.
type dying struct {
	*worker.Run
	d  *drive
	in int
}

func (s *dying) Checkpoint(ctx context.Context, state any) error {
	if err := s.Run.Checkpoint(ctx, state); err != nil {
		return err
	}
	if s.in--; s.in > 0 {
		return nil
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	var at struct {
		Cursor struct {
			Link string `json:"link"`
		} `json:"cursor"`
	}
	if err := json.Unmarshal(data, &at); err != nil {
		return err
	}
	if err := s.d.committed(ctx, at.Cursor.Link); err != nil {
		return err
	}
	return errors.New("killed")
}

func TestAFirstSyncThatDiesBetweenEveryTwoPagesGoesOnWhereItWas(t *testing.T) {
	d := newDrive(t)
	d.fake.PageSize = 5
	for i := range 32 {
		d.fake.File(d.root, fmt.Sprint(i, ".txt"), fmt.Sprint("the text of ", i))
	}
	kills := 0
	for {
		verdict := d.sync(d.connector(func(run *worker.Run) source.Store { return &dying{Run: run, d: d, in: 1} }))
		if verdict == "completed" {
			break
		}
		require.Equal(t, "failed: killed", verdict)
		if kills++; kills > 20 {
			t.Fatal("it does not get on")
		}
	}
	d.equal()
	require.Equal(t, 6, kills, "between every two of seven pages")
	for id, n := range d.fake.Downloads() {
		require.Equal(t, 1, n, id)
	}
	pages := 0
	for _, path := range d.fake.Requests() {
		if strings.HasSuffix(path, "/delta") {
			pages++
		}
	}
	require.Equal(t, 8, pages, "each page once, and once what changed meanwhile")
}

func TestWhatAFullQuotaRefusesInAFirstSyncThatDiesComesOnceThereIsRoom(t *testing.T) {
	d := newDrive(t)
	d.fake.PageSize = 5
	for i := range 20 {
		d.fake.File(d.root, fmt.Sprint(i, ".txt"), fmt.Sprint("the text of ", i))
	}
	d.exec(`INSERT INTO owner_quotas (user_id, max_documents) VALUES ($1, 2)`, 1)
	count := func(of string) (n int) {
		d.Helper()
		require.NoError(d, d.pool.QueryRow(t.Context(), `SELECT count(*) FROM documents WHERE connector_id = $1 AND status = $2`, d.id, of).Scan(&n))
		return n
	}
	require.Equal(t, "failed: killed", d.sync(d.connector(func(run *worker.Run) source.Store { return &dying{Run: run, d: d, in: 3} })))
	require.Equal(t, "completed", d.sync(d.connector(plain)))
	// Two have room; stores that were under way together may have gone beyond.
	require.Equal(t, 20, count("stored")+count("failed"))
	require.Greater(t, count("failed"), 0)
	d.exec(`UPDATE owner_quotas SET max_documents = 100 WHERE user_id = $1`, 1)
	testkit.Eventually(t, soon, func() error { // what is left is asked for again after a second
		if d.sync(d.connector(plain)); count("stored") < 20 {
			return fmt.Errorf("%d of 20 are stored", count("stored"))
		}
		return nil
	})
	d.equal()
}

func TestAMissingFolderIsAPermanentFailureOfItsConnector(t *testing.T) {
	d := newDrive(t)
	d.exec(`UPDATE connectors SET config = config || '{"folder": "No/Such"}' WHERE id = $1`, d.id)
	require.Contains(t, d.sync(d.connector(plain)), "folder No/Such: it does not exist")
	d.exec(`UPDATE connectors SET config = '{"folderr": "x"}' WHERE id = $1`, d.id)
	require.Contains(t, d.sync(d.connector(plain)), "folderr")
}
