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

	"github.com/echomind/sync/chaos/source"
	"github.com/echomind/sync/sdk/worker"
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
	changes, err := changesAfter(ctx, run, cfg, state.Version)
	if err != nil {
		return err
	}
	if err := send(ctx, run, cfg, state.Version, changes); err != nil {
		return err
	}
	return run.SetState(source.State{Version: state.Version + 1})
}

func changesAfter(ctx context.Context, run *worker.Run, cfg source.Config, v int) ([]source.Change, error) {
	if cfg.Mode == source.Delta {
		return source.Step(cfg, v), nil
	}
	known, err := run.Known(ctx)
	if err != nil {
		return nil, err
	}
	changes, unchanged := compare(source.List(cfg, v+1), known, v)
	run.Unchanged(unchanged)
	return changes, nil
}

// compare finds what has changed, as a worker does whose source can only list.
func compare(listing map[string]source.Document, known map[string]worker.Known, v int) ([]source.Change, int) {
	var changes []source.Change
	unchanged := 0
	for _, id := range slices.Sorted(maps.Keys(listing)) {
		d := listing[id]
		k, isKnown := known[id]
		change := source.Change{SourceID: id, Kind: source.Written, Document: d}
		switch {
		case d.Token != "" && isKnown && k.VersionToken == d.Token, id == source.PoisonID && v > 0:
			unchanged++
			continue
		case d.Token != "" && isKnown && k.VersionToken != "" && k.ContentHash == source.Hash(d.Text):
			change.Kind = source.Renamed
		}
		changes = append(changes, change)
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if _, listed := listing[id]; !listed {
			changes = append(changes, source.Change{SourceID: id, Kind: source.Deleted})
		}
	}
	return changes, unchanged
}

// send hands changes to the kit, one after the other in the time that a fetch takes, and lets trouble strike halfway.
func send(ctx context.Context, run *worker.Run, cfg source.Config, v int, changes []source.Change) error {
	pause := time.Duration(cfg.Milliseconds) * time.Millisecond / time.Duration(len(changes)+1)
	for i := 0; ; i++ {
		if err := wait(ctx, pause); err != nil {
			return err
		}
		if i == len(changes)/2 && cfg.Strikes(v) {
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
	}
}

func sendOne(ctx context.Context, run *worker.Run, cfg source.Config, change source.Change) error {
	d := worker.Document{
		SourceID: change.SourceID, Title: change.Document.Title, MediaType: "text/plain",
		URL: fmt.Sprintf("synthetic://%d/%s", cfg.Seed, change.SourceID), VersionToken: change.Document.Token,
	}
	switch {
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
