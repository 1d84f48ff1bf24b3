// Package campaign is one run of the harness: a world with a few thousand connectors, faults from a seed, quiet, and
// the audit.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/fault"
	"github.com/echomind/sync/testonly/chaos/world"
)

// Config says how long and how hard.
type Config struct {
	// Seed decides the connectors, the faults and their order.
	Seed uint64
	// Window is how long faults are begun.
	Window time.Duration
	// Long is how long a fault lasts that must outlast every timeout.
	Long time.Duration
	// Alone says that the first half of the window is for one fault at a time; else all of them overlap, each once.
	Alone bool
	// Every is the mean time between two faults of a mixture.
	Every time.Duration
	// Env is set for every program.
	Env []string
	// Grace is how long the scheduler lets a message be on its way, as the programs are told.
	Grace time.Duration
	// ForeignTimeout is how long a subscriber that keeps no lease may have a run.
	ForeignTimeout time.Duration
	// Prepare changes the world before the first connector; nil = nothing.
	Prepare func(context.Context, *world.World) error
	// Warm is how many of 100 connectors have synced before the first fault.
	Warm int
	// Connectors is how many synthetic connectors there are, Starved how many wait for the one slow worker.
	Connectors, Starved int
	// Settle is how long everything may take to be at rest afterwards.
	Settle time.Duration
	// Failover gives Postgres a replica, and plays a failover among the faults that do not kill Postgres.
	Failover bool
	// Cluster makes NATS a cluster of three, and plays what a cluster may lose among the other faults.
	Cluster bool
	// Only restricts the faults to those whose name contains it, or one of several between bars.
	Only string
	// Bin holds the programs; everything else is kept in Dir.
	Bin, Dir string
	Log      *slog.Logger
}

// Report is what came of it.
type Report struct {
	// Whole says that every kind of fault was injected, so that each check must have found something to look at.
	Whole    bool
	Injected []fault.Injected
	Findings []audit.Finding
	// Ends are ends of programs that nobody asked for.
	Ends []string
	// Syncs is how many runs ended, by verdict.
	Syncs map[string]int
}

const sites = 5

// programs are the system: two of everything, and one slow worker of its own.
func programs() []world.Program {
	two := func(name string, env ...string) []world.Program {
		return []world.Program{{Name: name + "-1", Binary: name, Env: env}, {Name: name + "-2", Binary: name, Env: env}}
	}
	all := two("scheduler", "SCHEDULER_LEADER_ELECTION=postgres")
	all = append(all, two("synthetic", "SYNTHETIC_TYPES="+typeSynthetic+","+typeCapped+","+typeAsked, "SYNTHETIC_JOBS="+typeJob, "WORKER_SLOTS=8", "WORKER_MAX_RUN_MINUTES=1")...)
	all = append(all, two("chunker")...)
	all = append(all, two("api", "DATABASE_MAX_CONNS=4")...)
	all = append(all, two("semantic")...) // with its own number of tries: faults may kill it three times over one message
	// Nobody kills this one: what fails there has failed for others' work, or for an outage.
	return append(all, world.Program{Name: "starved", Binary: "synthetic", Env: []string{
		"SYNTHETIC_TYPES=" + typeStarved, "WORKER_SLOTS=1", "ECHOMIND_FAILPOINTS=",
	}})
}

// Run plays a campaign. The error says that the harness itself could not go on; what it found is in the report.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	w, err := world.Open(ctx, world.Config{Bin: cfg.Bin, Dir: cfg.Dir, Programs: programs(), Env: append(cfg.Env, "FOREIGN_SYNC_TIMEOUT="+cfg.ForeignTimeout.String()), Qdrant: true,
		Replica: cfg.Failover, Cluster: cfg.Cluster, Clock: cfg.Alone, Log: cfg.Log})
	defer func() { err = errors.Join(err, w.Close()) }()
	if err != nil {
		return report, err
	}
	if cfg.Prepare != nil {
		if err := cfg.Prepare(ctx, w); err != nil {
			return report, wrap("prepare the world", err)
		}
	}
	report.Whole = cfg.Only == ""
	rng := rand.New(rand.NewPCG(cfg.Seed, 0))
	if err := populate(ctx, w, cfg, rng); err != nil {
		return report, err
	}
	w.StartPrograms()
	working, stopWork := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer func() { stopWork(); background.Wait() }()
	idle := &idlers{longest: map[string]time.Duration{}}
	subscriber := fault.NewSubscriber(w, cfg.Seed, cfg.Log)
	background.Go(func() { idle.watch(working, w) })
	read := newReads()
	background.Go(func() { read.watch(working, w) })
	background.Go(func() { subscriber.Run(working) })
	heard := newListener()
	background.Go(func() { heard.run(working, w) })
	tape, repeats := fault.NewTape(cfg.Seed), NewRepeats()
	stopTape, err := record(w, tape, repeats)
	if err != nil {
		return report, err
	}
	defer stopTape()

	callers, err := callers(ctx, w, cfg)
	if err != nil {
		return report, err
	}
	using, stopUsers := context.WithCancel(ctx)
	var people sync.WaitGroup
	defer func() { stopUsers(); people.Wait() }()
	for _, c := range callers {
		people.Go(func() { c.Run(using) })
	}
	if err := warmUp(ctx, w, cfg); err != nil {
		return report, err
	}
	people.Go(func() { users(using, w, sites, rand.New(rand.NewPCG(cfg.Seed, 2)), cfg.Log) })
	field := fault.Field{World: w, Long: cfg.Long, Tape: tape, Subscriber: subscriber, Extra: w.Extra, Log: cfg.Log}
	people.Go(func() { turn(using, w, rand.New(rand.NewPCG(cfg.Seed, 5)), cfg.Log) })
	report.Injected = play(ctx, cfg, field, rng)
	stopUsers()
	people.Wait()
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	if _, err := w.Pool.Exec(ctx, `DELETE FROM blackouts`); err != nil { // so that all comes to rest
		return report, wrap("delete the blackout windows", err)
	}
	report, err = finish(ctx, w, cfg, field, report)
	if report.Findings != nil {
		answered, problem := answered(ctx, w, callers, cfg.Failover)
		err = errors.Join(err, problem)
		report.Findings = append(report.Findings, answered...)
		report.Findings = append(report.Findings, idle.finding(), read.finding())
		if !cfg.Failover { // what a lost commit has published is published again
			published, problem := audit.Published(ctx, w.Pool, repeats.Runs())
			err = errors.Join(err, problem)
			told, trouble := heard.finding(ctx, w)
			err = errors.Join(err, trouble)
			report.Findings = append(report.Findings, repeats.Finding(cfg.Grace, cfg.Cluster), published, told)
		}
	}
	return report, err
}

func populate(ctx context.Context, w *world.World, cfg Config, rng *rand.Rand) error {
	if err := audit.Install(ctx, w.Pool); err != nil {
		return wrap("install the audit", err)
	}
	if err := addTypes(ctx, w); err != nil {
		return err
	}
	return errors.Join(
		addSynthetic(ctx, w, typeSynthetic, cfg.Connectors, 200, true, rng),
		addSynthetic(ctx, w, typeCapped, 40, 100, false, rng),
		addSynthetic(ctx, w, typeStarved, cfg.Starved, 400, false, rng),
		addChains(ctx, w),
		addBig(ctx, w, rng),
		addAsked(ctx, w),
		addReal(ctx, w, sites),
		addForeign(ctx, w),
		addRules(ctx, w, max(120, cfg.Connectors/5), rand.New(rand.NewPCG(cfg.Seed, 4))),
	)
}

// record tapes whatever is published, as plain NATS subscribers hear it.
func record(w *world.World, tape *fault.Tape, repeats *Repeats) (func(), error) {
	var subscriptions []*nats.Subscription
	stop := func() {
		for _, s := range subscriptions {
			_ = s.Unsubscribe()
		}
	}
	for _, listen := range []struct {
		subject string
		hear    nats.MsgHandler
	}{
		{topology.SyncSubjects, tape.Record}, {topology.DocumentSubject, tape.Record}, {topology.SyncSubjects, repeats.Hear},
	} {
		s, err := w.Stream.Conn().Subscribe(listen.subject, listen.hear)
		if err != nil {
			stop()
			return nil, wrap("listen to "+listen.subject, err)
		}
		subscriptions = append(subscriptions, s)
	}
	return stop, nil
}

func play(ctx context.Context, cfg Config, field fault.Field, rng *rand.Rand) []fault.Injected {
	faults := fault.Named(cfg.Only)
	if cfg.Failover {
		faults = append(faults, fault.Failover())
	}
	if cfg.Cluster {
		faults = append(faults, fault.NamedOfCluster(cfg.Only)...)
	}
	if field.World.Clock() && strings.Contains(fault.Clock().Name, cfg.Only) {
		faults = append(faults, fault.Clock())
	}
	if !cfg.Alone {
		return fault.Each(faults, cfg.Window, rng).Play(ctx, field, rng)
	}
	var done []fault.Injected
	began := time.Now()
	rng.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for _, f := range faults {
		if ctx.Err() != nil || time.Since(began) > cfg.Window/2 {
			break
		}
		alone := fault.Each([]fault.Fault{f}, 0, rng).Play(ctx, field, rng)
		for i := range alone {
			alone[i].At = time.Since(began) - alone[i].Took
		}
		done = append(done, alone...)
	}
	if left := cfg.Window - time.Since(began); left > 0 {
		offset := time.Since(began)
		mixed := fault.Mixture(faults, left, cfg.Every, rng).Play(ctx, field, rng)
		for i := range mixed {
			mixed[i].At += offset
		}
		done = append(done, mixed...)
	}
	return done
}

// finish mends everything, waits for quiet, says old messages again, and audits.
func finish(ctx context.Context, w *world.World, cfg Config, field fault.Field, report Report) (Report, error) {
	cfg.Log.Info("mended; waiting for quiet")
	if err := w.Heal(); err != nil {
		return report, err
	}
	if err := StopSchedules(ctx, w); err != nil {
		return report, err
	}
	if err := switchOffHanging(ctx, w); err != nil {
		return report, err
	}
	if err := syncReal(ctx, w); err != nil {
		return report, err
	}
	began := time.Now()
	before := make(chan Looks, 1)
	time.AfterFunc(LookPause, func() { before <- Looked(ctx, w) })
	unsettled := Settle(ctx, w, cfg.Settle)
	cfg.Log.Info("quiet", "after", time.Since(began).Round(time.Second), "err", unsettled)
	if unsettled == nil {
		// A day later: the runs are over and swept, and everything that was said is said again.
		field.Rand = rand.New(rand.NewPCG(cfg.Seed, 3))
		if err := field.Replay(ctx, 2000); err != nil {
			return report, err
		}
		field.Noise(ctx) // dead letters of before may have been wiped
		cfg.Log.Info("old messages are said again; waiting for quiet")
		unsettled = errors.Join(drained(ctx, w, cfg.Settle), Settle(ctx, w, cfg.Settle))
	}
	baseline := <-before
	short := Looked(ctx, w).Since(baseline)
	cfg.Log.Info("the audit")
	report.Ends = w.StopPrograms()
	var err error
	if report.Syncs, err = verdicts(ctx, w); err != nil {
		return report, err
	}
	var stepped time.Duration
	if lost(report.Injected, func(l fault.Loss) bool { return l.Clock }) {
		stepped = fault.Stepped
	}
	report.Findings, err = audit.Audit(ctx, w.Pool, audit.Options{
		WorkersLost:  lost(report.Injected, func(l fault.Loss) bool { return l.Workers }),
		MessagesLost: lost(report.Injected, func(l fault.Loss) bool { return l.Messages }),
		CommitsLost:  cfg.Failover,
		ClockStepped: stepped,
		Forged:       lost(report.Injected, func(l fault.Loss) bool { return l.Forged }),
		NeverFail:    []string{typeStarved}, Caps: map[string]int{typeCapped: placesCapped},
		Foreign: []string{fault.TypeForeign}, ForeignTimeout: cfg.ForeignTimeout,
	})
	if err != nil {
		return report, wrap("audit", err)
	}
	indexed, err := index(ctx, w, cfg.Failover)
	if err != nil {
		return report, err
	}
	report.Findings = append(report.Findings, atRest(unsettled), folders(ctx, w), deadLetters(ctx, w), indexed, short)
	return report, nil
}

// switchOffHanging ends, as their users would, what never ends by itself, and what another team serves.
func switchOffHanging(ctx context.Context, w *world.World) error {
	_, err := w.Pool.Exec(ctx, `SELECT moves.disable(id) FROM connectors
		WHERE status <> 'DISABLED' AND (config->>'trouble' = 'hang' OR config->>'url' LIKE '%/hang/' OR type = $1)`, fault.TypeForeign)
	return wrap("switch off what hangs", err)
}

// syncReal asks for what was edited since the last look.
func syncReal(ctx context.Context, w *world.World) error {
	_, err := w.Pool.Exec(ctx, `UPDATE connectors SET trigger_requested_at = clock_timestamp()
		WHERE type IN ('file', 'web') AND status <> 'DISABLED'`)
	return wrap("trigger files and sites", err)
}

func verdicts(ctx context.Context, w *world.World) (map[string]int, error) {
	rows, err := w.Pool.Query(ctx, `SELECT status || coalesce(' (' || reason || ')', ''), count(*)
		FROM runs WHERE status <> 'completed' OR reason IS NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 20`)
	if err != nil {
		return nil, wrap("count the verdicts", err)
	}
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var verdict string
		var n int
		if err := rows.Scan(&verdict, &n); err != nil {
			return nil, wrap("count the verdicts", err)
		}
		all[verdict] = n
	}
	return all, rows.Err()
}

func lost(injected []fault.Injected, what func(fault.Loss) bool) bool {
	loses := map[string]bool{}
	for _, f := range fault.Matrix() {
		loses[f.Name] = what(f.Loses)
	}
	for _, i := range injected {
		if loses[i.Name] {
			return true
		}
	}
	return false
}

// Place makes a folder for a campaign.
func Place(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "echomind-chaos-")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	return filepath.Clean(dir), os.Chmod(dir, 0o755)
}
