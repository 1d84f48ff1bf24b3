// Bench measures what dispatch and whole syncs cost beside the servers' own ceilings, the obvious loop and two peers, all in
// one run on one machine, and prints one table: make bench-dispatch.
//
// A ratio is worth more than the figures it is made of: whatever else the machine does burdens both. With -short sizes are
// small, and it is there to find out that something has become twice too slow.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/program"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/bench/figures"
	"github.com/echomind/sync/testonly/bench/load"
	"github.com/echomind/sync/testonly/bench/place"
)

// groupTimeout bounds a group with its preparation, which at full scale takes hours.
const groupTimeout = 12 * time.Hour

// errBroken says that a ratio is worse than half its target.
var errBroken = errors.New("worse than half its target")

func main() {
	if os.Getenv(load.Serves) != "" {
		os.Exit(serveAPI())
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	short := flag.Bool("short", false, "small sizes, in under a minute; the table is not for quoting")
	asJSON := flag.Bool("json", false, "print the report as JSON")
	dir := flag.String("dir", os.TempDir(), "where the servers keep their data: the disk that is measured")
	atRest := flag.Int("at-rest", 0, "how many connectors are at rest beside the few that are due; 0 = 1,000,000, with -short 20,000")
	ledger := flag.Int("ledger", 0, "how many runs the ledger has for syncs beside a long one; 0 = that is not measured")
	turns := flag.Int("turns", 0, "how many turns; 0 = 5, with -short 3")
	rate := flag.Int("rate", 0, "how many requests a second the API is asked; 0 = 500, with -short 50")
	only := flag.String("only", "", "only these groups: "+strings.Join(names(), ","))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	size := long
	if *short {
		size = small
	}
	size.atRest, size.turns = cmp.Or(*atRest, size.atRest), cmp.Or(*turns, size.turns)
	size.ledger, size.rate = *ledger, cmp.Or(*rate, size.rate)
	if err := size.check(); err != nil {
		return err
	}
	report, err := measure(ctx, *dir, size, *only)
	if err != nil {
		return err
	}
	report.Short = *short
	if *asJSON {
		err = report.JSON(os.Stdout)
	} else {
		err = report.Table(os.Stdout)
	}
	for _, row := range report.Broken() {
		err = errors.Join(err, fmt.Errorf("%s, %s: %.3g is %w", row.Group, row.Name, row.Median, errBroken))
	}
	return err
}

// measure takes one group after the other, on servers of their own.
func measure(ctx context.Context, dir string, size sizes, only string) (report figures.Report, err error) {
	chosen, err := choose(only)
	if err != nil {
		return report, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, err := place.Open(ctx, dir, log)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	durable, err := p.Durable(ctx)
	if err != nil {
		return report, err
	}
	report.Taken = time.Now()
	report.Machine, err = figures.Look(p.Dir(), durable, "nats-server "+server.VERSION+" (files, in process)",
		"River "+figures.Linked("github.com/riverqueue/river"), "DBOS "+figures.Linked("github.com/dbos-inc/dbos-transact-golang"))
	if err != nil {
		return report, err
	}
	for _, g := range chosen {
		s := &session{place: p, size: size, log: log}
		rows, err := deadline.Get(ctx, "bench."+g.name, groupTimeout, func(ctx context.Context) ([]figures.Row, error) { return g.take(s, ctx) })
		if err = errors.Join(err, s.close()); err != nil {
			return report, fmt.Errorf("group %s: %w", g.name, err)
		}
		report.Rows = append(report.Rows, rows...)
	}
	return report, nil
}

// profileOf names the file that the API's processor profile is written to.
const profileOf = "ECHOMIND_BENCH_PROFILE"

// serveAPI is the process that is the API.
func serveAPI() int {
	if name := os.Getenv(profileOf); name != "" {
		file, err := os.Create(name)
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer pprof.StopCPUProfile()
	}
	return program.Main(api.Run)
}
