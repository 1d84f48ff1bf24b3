package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/internal/extract"
	"github.com/echomind/sync/testonly/fakedrive"
	"github.com/echomind/sync/testonly/testkit"
)

// googleText reads content as the service does.
type googleText struct{}

func (googleText) Extract(ctx context.Context, content []byte, name, mediaType string) (source.Content, error) {
	read, err := extract.Extract(ctx, content, extract.Hint{MediaType: mediaType, Name: name})
	read.Title = ""
	return read, err
}

func (googleText) OfContent(err error) bool { return extract.OfContent(err) }

func (googleText) Version() string { return extract.Version }

// google is a Google Drive and the line that keeps it in sync.
type google struct {
	*line
	fake *fakedrive.Server
	root string
}

func newGoogle(t *testing.T) *google {
	t.Parallel()
	fake := fakedrive.New()
	t.Cleanup(fake.Close)
	top := fake.Folder(fakedrive.Root, "Top")
	return &google{line: newLine(t, "google_drive", fmt.Sprintf(`{"folder_id": %q}`, top)), fake: fake, root: top}
}

func (g *google) connector(wrap func(*worker.Run) source.Store) worker.Handler {
	return func(ctx context.Context, run *worker.Run) error {
		var cfg googledrive.Config
		if err := run.Config(&cfg); err != nil {
			return err
		}
		_, err := googledrive.Sync(ctx, cfg, googledrive.Options{
			Endpoint: g.fake.URL, Client: g.fake.Client(), Extract: googleText{}, OwnerAlone: true,
		}, wrap(run))
		return err
	}
}

func (g *google) syncs(want string) {
	g.Helper()
	require.Equal(g, want, g.sync(g.connector(func(run *worker.Run) source.Store { return run })))
	g.equal()
}

// equal compares what is stored with the drive, whose files here are all of plain text.
func (g *google) equal() {
	g.Helper()
	want := map[string]document{}
	for id, f := range g.fake.Tree(g.root) {
		d := document{Title: f.Name, URL: f.Link, Text: f.Content}
		if !f.CanDownload {
			d.Text, d.Err = "", "its owner does not allow it to be downloaded (canDownload is false); ask for permission to download"
		}
		want[id] = d
	}
	require.Equal(g, want, g.documents())
}

func TestAShortcutForWhichThereIsNoRoomKeepsItsTextUntilThereIs(t *testing.T) {
	g := newGoogle(t)
	target := g.fake.File(fakedrive.Root, "target.txt", "text/plain", "old words")
	s := g.fake.Shortcut(g.root, "short", target)
	syncs := func() string {
		g.Helper()
		require.Equal(g, "completed", g.sync(g.connector(func(run *worker.Run) source.Store { return run })))
		return g.documents()[s].Text
	}
	g.exec(`INSERT INTO owner_quotas (user_id, max_bytes) VALUES ($1, 1000)`, 1)
	require.Equal(t, "old words", syncs())
	g.fake.Write(target, "new words"+strings.Repeat(", and many more of them", 100))
	for range 3 {
		require.Equal(t, "old words", syncs())
		require.Contains(t, g.documents()[s].Err, "no room")
	}
	g.exec(`UPDATE owner_quotas SET max_bytes = NULL WHERE user_id = $1`, 1)
	testkit.Eventually(t, soon, func() error { // what is left is asked for again after a second
		if text := syncs(); !strings.HasPrefix(text, "new words") {
			return errors.New(text)
		}
		return nil
	})
}

func TestAGoogleDriveIsKeptInSync(t *testing.T) {
	g := newGoogle(t)
	g.fake.MaxPage = 3
	folder := g.fake.Folder(g.root, "folder")
	var ids []string
	for i := range 10 {
		ids = append(ids, g.fake.File(folder, fmt.Sprint(i, ".txt"), "text/plain", fmt.Sprint("the text of ", i)))
	}
	doc := g.fake.Doc(folder, "written in a browser", fakedrive.DocumentType, "words of a document")
	g.fake.AllowDownload(ids[9], false)
	g.syncs("completed")
	g.syncs("skipped")
	g.fake.Write(ids[0], "another text")
	g.fake.Write(doc, "other words")
	g.fake.Rename(ids[1], "renamed.txt")
	g.fake.Delete(ids[2])
	g.fake.Trash(ids[3], true)
	g.fake.Rename(folder, "renamed")
	g.fake.AllowDownload(ids[9], true)
	g.syncs("completed")
	g.fake.ExpireTokens()
	g.fake.Write(ids[4], "and another")
	g.syncs("completed")
	g.fake.Move(folder, fakedrive.Root)
	g.syncs("completed")
	require.Empty(t, g.documents())
	g.fake.Move(folder, g.root)
	g.syncs("completed")
	g.exec(`UPDATE connectors SET config = config || '{"max_file_bytes": 1000}' WHERE id = $1`, g.id)
	g.fake.Delete(ids[5])
	g.syncs("completed")
	g.fake.Delete(g.root)
	require.Contains(t, g.sync(g.connector(func(run *worker.Run) source.Store { return run })), "failed: folder_id")
}

// dyingDrive is a run that dies once a checkpoint of its own is committed.
type dyingDrive struct {
	*worker.Run
	g  *google
	in int
}

func (s *dyingDrive) Checkpoint(ctx context.Context, state any) error {
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
	for {
		var is bool
		err := s.g.pool.QueryRow(ctx, `SELECT coalesce(state = $2, false) FROM connectors WHERE id = $1`, s.g.id, data).Scan(&is)
		if err != nil {
			return err
		}
		if is {
			return errors.New("killed")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestAFirstSyncOfAGoogleDriveThatDiesBetweenEveryTwoPagesGoesOnWhereItWas(t *testing.T) {
	g := newGoogle(t)
	g.fake.MaxPage = 5
	var ids []string
	for i := range 32 {
		ids = append(ids, g.fake.File(g.root, fmt.Sprint(i, ".txt"), "text/plain", fmt.Sprint("the text of ", i)))
	}
	kills := 0
	for {
		verdict := g.sync(g.connector(func(run *worker.Run) source.Store { return &dyingDrive{Run: run, g: g, in: 1} }))
		if verdict == "completed" {
			break
		}
		require.Equal(t, "failed: killed", verdict)
		if kills++; kills > 20 {
			t.Fatal("it does not get on")
		}
	}
	g.equal()
	require.Equal(t, 8, kills, "at its beginning, after the folders, and between every two of seven pages")
	for _, id := range ids {
		require.Equal(t, 1, g.fake.Reads(id), "a content is read once")
		require.Equal(t, 1, g.fake.Listed(id), "no page is listed twice")
	}
}
