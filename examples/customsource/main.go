// Customsource is a subscriber of another team: it syncs connectors of a type of its own, `notes`. Each of them
// names a text file with one note per line, "id: text". Copy it to begin a source of your own.
//
//	psql "$DATABASE_URL" -c "INSERT INTO connector_types (name) VALUES ('notes')"
//	DATABASE_URL=… NATS_URL=… go run ./examples/customsource
//	echomind connectors add --name mine --type notes --user 1 --refresh 60m --config '{"file":"/home/me/notes.txt"}'
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

func main() {
	// At the first signal Serve takes no new connector and lets those at work finish within SHUTDOWN_GRACE_SECONDS.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := worker.Serve(ctx, "notes", sync)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sync brings the stored documents up to date with the file. It may be run again at any time, from the beginning:
// only what differs from what is stored is sent.
func sync(ctx context.Context, run *worker.Run) error {
	var cfg struct {
		File string `json:"file"`
	}
	if err := run.Config(&cfg); err != nil {
		return err // a field that is misspelt stays an error until the user mends it
	}
	data, err := os.ReadFile(cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return worker.Permanent(err) // trying again cannot help; any other error is tried again after a backoff
	}
	if err != nil {
		return err
	}
	gone, err := run.Known(ctx) // what is stored; what the file still has is taken off below
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		id, text, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			continue
		}
		sum := sha256.Sum256([]byte(text))
		version := hex.EncodeToString(sum[:])
		stored := gone[id]
		delete(gone, id)
		if stored.VersionToken == version {
			run.Unchanged(1)
			continue
		}
		doc := worker.Document{
			SourceID: id, Title: id, MediaType: "text/plain", ContentHash: version, VersionToken: version,
			Chunks: chunk.Split([]chunk.Section{{Text: text}}, chunk.Options{}),
		}
		if err := run.Put(ctx, doc); err != nil {
			return err
		}
	}
	for id := range gone { // only now: the file was read to its end without error
		if err := run.Delete(ctx, id); err != nil {
			return err
		}
	}
	// Kept for the next run.State, once everything above is stored. Most sources keep a cursor or a delta token here.
	return run.SetState(map[string]any{"bytes": len(data)})
}
