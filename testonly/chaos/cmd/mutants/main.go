// Mutants puts proved defects back, one at a time, and expects the audit to see each of them: make chaos-mutants.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/pgserver"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/mutants"
	"github.com/echomind/sync/testonly/chaos/world"
)

func main() { os.Exit(run()) }

func run() int {
	bin := flag.String("bin", "bin/chaos", "where the programs are")
	only := flag.String("only", "", "only these mutants, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs, err := filepath.Abs(*bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	missed := 0
	for _, m := range mutants.All {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), m.Name) {
			continue
		}
		began := time.Now()
		by, err := find(ctx, m, programs)
		verdict := "found by " + by
		switch {
		case err != nil:
			verdict, missed = "could not be tried: "+err.Error(), missed+1
		case by == "":
			verdict, missed = "NOT FOUND", missed+1
		}
		fmt.Printf("%-12s seed %d  %5s  %s\n", m.Name, m.Seed, time.Since(began).Round(time.Second), verdict)
	}
	if missed > 0 {
		return 1
	}
	return 0
}

// find tries a mutant and says which check has seen it; empty where none has.
func find(ctx context.Context, m mutants.Mutant, programs string) (by string, err error) {
	dir, err := campaign.Place(os.TempDir())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if m.Scenario != nil {
		f, err := scenario(ctx, m, dir)
		return seen(m, []audit.Finding{f}), err
	}
	bin, err := spoiled(ctx, m, programs, filepath.Join(dir, "bin"))
	if err != nil {
		return "", err
	}
	report, err := campaign.Run(ctx, campaign.Config{
		Seed: m.Seed, Window: 4 * time.Second, Long: 8 * time.Second, Connectors: 150, Starved: 10, Warm: 50, Settle: 40 * time.Second,
		ForeignTimeout: time.Minute, Grace: 14 * time.Second, Only: m.Faults, Bin: bin, Dir: dir, Log: slog.New(slog.DiscardHandler),
		Env: []string{
			"WORKER_LEASE_SECONDS=6", "SCHEDULER_LOST_GRACE_SECONDS=14", "SCHEDULER_WATCH_INTERVAL_SECONDS=1", "CHAOS_ACK_WAIT=5s",
		},
		Prepare: func(ctx context.Context, w *world.World) error { return m.Spoil(ctx, w.Pool) },
	})
	return seen(m, report.Findings), err
}

func seen(m mutants.Mutant, findings []audit.Finding) string {
	var by []string
	for _, f := range findings {
		if f.Violated > 0 && slices.Contains(m.Finds, f.Name) {
			by = append(by, fmt.Sprintf("%q, %d times: %.100s", f.Name, f.Violated, f.Violations[0]))
		}
	}
	return strings.Join(by, "; ")
}

// scenario runs a mutant's own, first without the mutant: it must find nothing then.
func scenario(ctx context.Context, m mutants.Mutant, dir string) (f audit.Finding, err error) {
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres"), Volatile: true})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	for _, spoil := range []bool{false, true} {
		if f, err = one(ctx, m, server, spoil); err != nil {
			return f, err
		}
		if !spoil && f.Violated > 0 {
			return f, fmt.Errorf("without the mutant: %s", f.Violations[0])
		}
	}
	return f, nil
}

func one(ctx context.Context, m mutants.Mutant, server *pgserver.Server, spoil bool) (f audit.Finding, err error) {
	name := fmt.Sprintf("spoiled_%t", spoil)
	admin, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		return f, err
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, `CREATE DATABASE `+name); err != nil {
		return f, err
	}
	if err := db.Up(ctx, server.DatabaseURL(name)); err != nil {
		return f, err
	}
	pool, err := pgxpool.New(ctx, server.DatabaseURL(name))
	if err != nil {
		return f, err
	}
	defer pool.Close()
	if spoil {
		if err := m.Spoil(ctx, pool); err != nil {
			return f, err
		}
	}
	return m.Scenario(ctx, pool)
}

// spoiled is a folder with the programs, semantic built from the mutant's sources.
func spoiled(ctx context.Context, m mutants.Mutant, programs, dir string) (string, error) {
	if len(m.Go) == 0 {
		return programs, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(programs)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name() == "semantic" {
			continue
		}
		if err := os.Symlink(filepath.Join(programs, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return "", err
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	overlay, err := m.Overlay(root, dir, filepath.Join(programs, "clock", "overlay.json"))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-tags", "chaos", "-overlay", overlay, "-o", filepath.Join(dir, "semantic"),
		"./services/semantic/cmd/semantic")
	build.Stdout, build.Stderr = io.Discard, os.Stderr
	return dir, build.Run()
}
