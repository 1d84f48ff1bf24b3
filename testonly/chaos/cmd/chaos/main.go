// Chaos is the fault harness: make chaos.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/crowd"
	"github.com/echomind/sync/testonly/chaos/recovery"
	"github.com/echomind/sync/testonly/chaos/tenant"
)

func main() { os.Exit(run()) }

func run() int {
	minutes := flag.Float64("minutes", 0, "how long faults are begun; 0 = the short form, in which every fault happens once")
	seed := flag.Uint64("seed", 0, "what decides connectors and faults; 0 = a random one")
	connectors := flag.Int("connectors", 0, "how many synthetic connectors; 0 = 500 in the short form, 2000 else")
	only := flag.String("only", "", "only faults, with -tenant attacks, whose name contains this")
	bin := flag.String("bin", "bin/chaos", "where the programs are")
	keep := flag.Bool("keep", false, "keep the folder with the logs")
	failover := flag.Bool("failover", false, "the short form with a replica of Postgres and a failover that loses its last commits")
	cluster := flag.Bool("cluster", false, "the short form with three nats-servers that lose their leader and their majority")
	crowded := flag.Bool("crowd", false, "measure what very many connectors in flight cost, instead of breaking promises")
	pending := flag.Int("pending", 5000, "with -crowd: how many connectors wait when the stream is wiped")
	inFlight := flag.Int("in-flight", 2000, "with -crowd: how many connectors another team's subscriber has")
	owner := flag.Bool("tenant", false, "measure what others notice of a hostile owner of connectors, instead of breaking promises")
	alone := flag.Bool("alone", false, "with -tenant: each attack by itself, too")
	strict := flag.Bool("strict", false, "with -tenant: fail where the others' p99 grows beyond its bound")
	users := flag.String("users", "helm/echomind/files/nats.conf", "with -tenant: the configuration of nats-server with everybody's rights")
	times := flag.Bool("recovery", false, "measure recovery times instead of breaking promises")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	dir, err := campaign.Place(os.TempDir())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs, err := filepath.Abs(*bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var ok bool
	switch {
	case *crowded:
		ok, err = crowd.Measure(ctx, os.Stdout, crowd.Config{Pending: *pending, InFlight: *inFlight, Bin: programs, Dir: dir, Log: log})
	case *owner:
		ok, err = tenant.Measure(ctx, os.Stdout, tenant.Config{Alone: *alone, Only: *only, Strict: *strict, Users: *users, Bin: programs, Dir: dir, Log: log})
	case *times:
		ok, err = recovery.Measure(ctx, os.Stdout, recovery.Config{Bin: programs, Dir: dir, Log: log})
	default:
		fmt.Printf("seed %d\n", *seed)
		var report campaign.Report
		cfg := config(*seed, *minutes, *connectors, *only, programs, dir, log)
		if cfg.Failover = *failover; *failover {
			cfg.Only = besideFailover
		}
		if cfg.Cluster = *cluster; *cluster {
			cfg.Only, cfg.Connectors = cmp.Or(*only, besideCluster), cmp.Or(*connectors, 300)
		}
		report, err = campaign.Run(ctx, cfg)
		ok = report.Write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the harness could not go on:", err)
	}
	if *keep || !ok || err != nil {
		fmt.Println("logs are in", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if !ok || err != nil {
		return 1
	}
	return 0
}

// besideFailover are the faults that happen beside a failover.
const besideFailover = "kill -9 s|kill -9 between|kill -9 mid|messages repeated|forged|users at|freeze synthetic|freeze semantic|vanishes|api"

// besideCluster are the faults that happen beside what a cluster of nats-servers loses: none that loses messages.
const besideCluster = "kill -9 s|kill -9 between c|kill -9 between i|kill -9 between p|kill -9 between s|kill -9 mid|messages|users at|freeze synthetic|NATS's clock|to NATS|from NATS"

// config is the short form, whose programs wait less long than by default for what is lost, or one of some minutes in
// which each fault first comes alone.
func config(seed uint64, minutes float64, connectors int, only, bin, dir string, log *slog.Logger) campaign.Config {
	cfg := campaign.Config{
		Seed: seed, Window: 20 * time.Second, Long: 16 * time.Second, Connectors: cmp.Or(connectors, 500), Starved: 40,
		Warm: 25, Settle: 3 * time.Minute, ForeignTimeout: time.Minute, Grace: 14 * time.Second, Only: only, Bin: bin, Dir: dir, Log: log,
		Env: []string{
			"WORKER_LEASE_SECONDS=6", "SCHEDULER_LOST_GRACE_SECONDS=14", "SCHEDULER_WATCH_INTERVAL_SECONDS=1", "CHAOS_ACK_WAIT=5s",
		},
	}
	if minutes > 0 {
		cfg.Env, cfg.Grace, cfg.Warm = nil, 15*time.Second, 90 // as everybody runs it
		cfg.Connectors = cmp.Or(connectors, 2000)
		cfg.Window = time.Duration(minutes * float64(time.Minute))
		cfg.Long, cfg.Alone, cfg.Every = 65*time.Second, true, 3*time.Second
		cfg.Starved, cfg.Settle = 200, 4*time.Minute
	}
	return cfg
}
