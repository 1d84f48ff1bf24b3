// Package synthetic is the worker of the synthetic source: a handler for the worker kit.
package synthetic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/chaos/source"
)

// errTrouble is what a source says that fails.
var errTrouble = errors.New("the synthetic source fails")

// killProcess ends the process as a source does that kills its worker.
var killProcess = func() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Sync brings a connector from the version in its state to the next one.
func Sync(ctx context.Context, run *worker.Run) error {
	var cfg source.Config
	if err := run.Config(&cfg); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return worker.Permanent(err)
	}
	var state source.State
	if err := run.State(&state); err != nil {
		return err
	}
	if err := lock(ctx, run); err != nil {
		return err
	}
	shown, absent, err := fetch(ctx, run, cfg, state)
	if err != nil {
		return err
	}
	if err := send(ctx, run, cfg, state, shown, absent); err != nil {
		return err
	}
	return run.SetState(source.State{Version: state.Version + 1})
}

// work is a job's: it takes the time that its config says.
func work(ctx context.Context, run *worker.JobRun, _ struct{}) (any, error) {
	var cfg struct {
		Milliseconds int    `json:"milliseconds"`
		Matter       string `json:"matter"` // its condition's
	}
	if err := run.Config(&cfg); err != nil {
		return nil, worker.Permanent(err)
	}
	return nil, wait(ctx, time.Duration(cfg.Milliseconds)*time.Millisecond)
}

// lock has every fourth connector hold one of three locks while it is fetched, where it is given it within a moment: half of them wait that long. What is
// fetched does not depend on it; the audit sees who had it when.
func lock(ctx context.Context, run *worker.Run) error {
	id := run.Request().ConnectorId
	if id%4 != 0 {
		return nil
	}
	var how []worker.LockOption
	if id%8 == 0 {
		how = append(how, worker.WaitUpTo(lockWait))
	}
	if _, err := run.Acquire(ctx, fmt.Sprintf("synthetic:%d", id%3), lockTTL, how...); !errors.Is(err, worker.ErrLocked) {
		return err
	}
	return nil
}

const lockWait, lockTTL = 500 * time.Millisecond, 2 * time.Second

// unchanged is the kind of a document that a listing shows as it is stored.
const unchanged source.Kind = "unchanged"

// fetch returns what the source shows from the checkpoint in state on, and what a listing shows to be gone.
func fetch(ctx context.Context, run *worker.Run, cfg source.Config, state source.State) (shown, absent []source.Change, err error) {
	if cfg.Mode == source.Delta {
		return source.Step(cfg, state.Version)[state.Done:], nil, nil
	}
	if cfg.Checkpoint > 0 && state.Done == 0 {
		run.BeginListing()
	}
	known, err := run.Known(ctx)
	if err != nil {
		return nil, nil, err
	}
	shown, absent = compare(source.List(cfg, state.Version+1), known, state)
	return shown, absent, nil
}

// compare finds what has changed, as a worker does whose source can only list. It looks at nothing that the listing has
// shown before the checkpoint in state.
func compare(
	listing map[string]source.Document, known map[string]worker.Known, state source.State,
) (shown, absent []source.Change) {
	listed := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(listing))[state.Done:] {
		listed[id] = true
		d := listing[id]
		k, isKnown := known[id]
		change := source.Change{SourceID: id, Kind: source.Written, Document: d}
		switch {
		case d.Token != "" && isKnown && k.VersionToken == d.Token, id == source.PoisonID && state.Version > 0:
			change.Kind = unchanged
		case d.Token != "" && isKnown && k.VersionToken != "" && k.ContentHash == source.Hash(d.Text):
			change.Kind = source.Renamed
		}
		shown = append(shown, change)
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if !listed[id] && !known[id].Seen {
			absent = append(absent, source.Change{SourceID: id, Kind: source.Deleted})
		}
	}
	return shown, absent
}

// send hands changes to the kit, one after the other in the time that a fetch takes, and lets trouble strike halfway.
func send(ctx context.Context, run *worker.Run, cfg source.Config, state source.State, shown, absent []source.Change) error {
	changes := slices.Concat(shown, absent)
	pause := time.Duration(cfg.Milliseconds) * time.Millisecond / time.Duration(len(changes)+1)
	for i := 0; ; i++ {
		if err := wait(ctx, pause); err != nil {
			return err
		}
		if i == len(changes)/2 && cfg.Strikes(state.Version) {
			if err := strike(cfg.Trouble, run.Request().DueReason); err != nil {
				return err
			}
		}
		if i == len(changes) {
			return nil
		}
		if err := sendOne(ctx, run, cfg, changes[i]); err != nil {
			return err
		}
		if n := i + 1; n <= len(shown) && cfg.Checkpoint > 0 && n%cfg.Checkpoint == 0 {
			if err := checkpoint(ctx, run, state, shown[n-cfg.Checkpoint:n], n); err != nil {
				return err
			}
		}
	}
}

// checkpoint says that the source need not show the first n documents again; page are those since the last checkpoint.
func checkpoint(ctx context.Context, run *worker.Run, state source.State, page []source.Change, n int) error {
	var stand []string
	for _, change := range page {
		if change.Kind == unchanged {
			stand = append(stand, change.SourceID)
		}
	}
	if err := run.Seen(ctx, stand...); err != nil {
		return err
	}
	state.Done += n
	return run.Checkpoint(ctx, state)
}

func sendOne(ctx context.Context, run *worker.Run, cfg source.Config, change source.Change) error {
	d := worker.Document{
		SourceID: change.SourceID, Title: change.Document.Title, MediaType: "text/plain",
		URL: fmt.Sprintf("synthetic://%d/%s", cfg.Seed, change.SourceID), VersionToken: change.Document.Token,
	}
	switch {
	case change.Kind == unchanged:
		run.Unchanged(1)
		return nil
	case change.Kind == source.Deleted:
		return run.Delete(ctx, change.SourceID)
	case change.Document.Err != "":
		d.Err = change.Document.Err
		return run.Put(ctx, d)
	}
	d.ContentHash = source.Hash(change.Document.Text)
	if change.Kind == source.Renamed {
		return run.Touch(ctx, d)
	}
	d.Chunks = source.Chunks(change.Document.Text)
	return run.Put(ctx, d)
}

// strike is what becomes of a fetch that meets with trouble. What has failed once recovers at its next try.
func strike(trouble, dueReason string) error {
	tried := slices.Contains([]string{"retry", "rescue"}, dueReason)
	passed := tried || slices.Contains([]string{"lost", "release", "changed"}, dueReason)
	switch trouble {
	case source.Hang:
		select {} // whatever its context says
	case source.Kill:
		if !tried {
			killProcess()
		}
	case source.Fail:
		if !passed {
			return errTrouble
		}
	case source.Permanent:
		if !passed && dueReason != "manual" { // it is its user who mends it
			return worker.Permanent(errTrouble)
		}
	case source.Panic:
		if !passed {
			panic("the synthetic source panics")
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
