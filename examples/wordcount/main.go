// Wordcount is a job: its runs store no documents, and have a result. Each connector of its type, `word_count`, names a folder; a run counts
// the words of the texts in it (`*.txt`), once there are enough. Copy it to begin a job of your own.
//
//	echomind types add word_count --kind job --default-refresh 1h
//	DATABASE_URL=… NATS_URL=… go run ./examples/wordcount
//	echomind connectors add --name words --type word_count --user 1 --config '{"folder":"/home/me/notes","at_least":3}'
//
// Beside `make run` it is started by `make example-job`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/echomind/sync/sdk/worker"
)

// config is the configuration of a connector: the data of the job.
type config struct {
	Folder string `json:"folder"`
	// AtLeast is how many texts there must be, so that they are worth the work.
	AtLeast int `json:"at_least"`
}

// result is what came of a run, for `echomind runs show`.
type result struct {
	Texts int `json:"texts"`
	Words int `json:"words"`
}

// largest is how many bytes of a text are read.
const largest = 1 << 20

func main() {
	// At the first signal ServeJob takes no new run and lets those at work finish within SHUTDOWN_GRACE_SECONDS.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := worker.ServeJob(ctx, "word_count", worker.Job[[]string]{Check: check, Prepare: texts, Work: count})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check says whether there is anything to do. It is cheap: it counts names.
func check(ctx context.Context, run *worker.JobRun) (due bool, why string, err error) {
	var cfg config
	if err := run.Config(&cfg); err != nil {
		return false, "", err // a field that is misspelt stays an error until the user mends it
	}
	found, err := texts(ctx, run)
	if err != nil {
		return false, "", err
	}
	return len(found) >= cfg.AtLeast, fmt.Sprintf("%d texts, fewer than %d", len(found), cfg.AtLeast), nil
}

// texts are the files to count.
func texts(_ context.Context, run *worker.JobRun) ([]string, error) {
	var cfg config
	if err := run.Config(&cfg); err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.Folder); errors.Is(err, fs.ErrNotExist) {
		return nil, worker.Permanent(err) // trying again cannot help; any other error is tried again after a backoff
	}
	return filepath.Glob(filepath.Join(cfg.Folder, "*.txt"))
}

func count(ctx context.Context, run *worker.JobRun, found []string) (any, error) {
	var all result
	for i, name := range found {
		if err := ctx.Err(); err != nil { // cancelled, or somebody else's by now
			return nil, err
		}
		run.Progress(int64(i), int64(len(found)), filepath.Base(name))
		text, err := os.ReadFile(name)
		switch {
		case err != nil:
			return nil, err
		case len(text) > largest || !utf8.Valid(text):
			run.Warn(filepath.Base(name) + " is left out: it is no text of at most 1 MiB")
			continue
		}
		all.Texts, all.Words = all.Texts+1, all.Words+len(strings.Fields(string(text)))
	}
	run.Progress(int64(len(found)), int64(len(found)), "all")
	return all, nil
}
