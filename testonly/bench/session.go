package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/echomind/sync/testonly/bench/ceiling"
	"github.com/echomind/sync/testonly/bench/figures"
	"github.com/echomind/sync/testonly/bench/ours"
	"github.com/echomind/sync/testonly/bench/peers"
	"github.com/echomind/sync/testonly/bench/place"
)

// Names of figures that ratios are made of.
const (
	publishes, claims, claimsLedger = "publish and acknowledgement, 250 B", "claim statement, no ledger", "claim statement, with its ledger row"
	claimsLikeOurs                  = "the same on tables with our columns, constraints and indexes"
	dispatches                      = "our dispatch: claim, ledger, trigger, publish, acknowledgement"
	uncapped, underCap              = "our cycle, no cap", "our cycle, cap of 64"
	riverBoth                       = "River: insert and work"
)

// session is one group's connections.
type session struct {
	place  *place.Place
	size   sizes
	log    *slog.Logger
	closes []func() error
}

func (s *session) close() error {
	var errs []error
	for _, end := range s.closes {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

func (s *session) onClose(end func() error) { s.closes = append(s.closes, end) }

func (s *session) measure(ctx context.Context, g figures.Group) ([]figures.Row, error) {
	return g.Measure(ctx, s.size.turns, func(what string) { fmt.Fprintln(os.Stderr, what) })
}

// dispatch compares ours with what each server does at best, and with the obvious loop.
func (s *session) dispatch(ctx context.Context) ([]figures.Row, error) {
	publisher, claimer, err := s.ceilings(ctx)
	if err != nil {
		return nil, err
	}
	system, dispatcher, err := s.system(ctx, "dispatch", s.size.dispatch)
	if err != nil {
		return nil, err
	}
	n := s.size.dispatch
	onOurs, err := ceiling.NewClaimerLikeOurs(ctx, system.URL(), n, s.place.Checkpoint)
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { return onOurs.Close(context.WithoutCancel(ctx)) })
	claim := func(from *ceiling.Claimer, withLedger bool) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return from.Rate(ctx, claimBatch, withLedger) }
	}
	return s.measure(ctx, figures.Group{
		Name: fmt.Sprintf("dispatch of %d due, batches of %d", n, claimBatch),
		Measurements: []figures.Measurement{
			one(publishes, perSecond, func(ctx context.Context) (float64, error) { return publisher.Rate(ctx, n) }),
			one(claims, perSecond, claim(claimer, false)),
			one(claimsLedger, perSecond, claim(claimer, true)),
			one(claimsLikeOurs, perSecond, claim(onOurs, true)),
			one(dispatches, perSecond, func(ctx context.Context) (float64, error) { return dispatcher.Rate(ctx, free, n) }),
			one("the obvious loop: row by row, no ledger", perSecond, func(ctx context.Context) (float64, error) {
				return claimer.LoopRate(ctx, publisher, s.size.loop)
			}),
		},
		Ratios: []figures.Ratio{
			{Name: "our dispatch / the lower ceiling with a ledger row", Of: dispatches, To: []string{publishes, claimsLedger}, AtLeast: 0.8, LongOnly: true},
			{Name: "our dispatch / claim statement, no ledger", Of: dispatches, To: []string{claims}, AtLeast: 0.4, LongOnly: true},
			{Name: "our dispatch / claim statement on tables like ours", Of: dispatches, To: []string{claimsLikeOurs}},
		},
	})
}

// ceilings are a publisher and a claimer on servers of their own.
func (s *session) ceilings(ctx context.Context) (*ceiling.Publisher, *ceiling.Claimer, error) {
	bus, err := s.place.Broker("ceiling")
	if err != nil {
		return nil, nil, err
	}
	publisher, err := ceiling.NewPublisher(ctx, bus)
	if err != nil {
		return nil, nil, err
	}
	s.onClose(func() error { publisher.Close(); return nil })
	url, err := s.place.Database(ctx, "ceiling")
	if err != nil {
		return nil, nil, err
	}
	claimer, err := ceiling.NewClaimer(ctx, url, s.size.dispatch, s.place.Checkpoint)
	if err != nil {
		return nil, nil, err
	}
	s.onClose(func() error { return claimer.Close(context.WithoutCancel(ctx)) })
	return publisher, claimer, nil
}

// cycles compares whole syncs with a job of River's and a workflow of DBOS's, and with themselves under a cap.
func (s *session) cycles(ctx context.Context) ([]figures.Row, error) {
	system, err := ours.New(ctx, s.place, "cycles", s.log)
	if err != nil {
		return nil, err
	}
	for kind, limit := range map[string]int{free: 0, capped: placesOfCapped} {
		if err := errors.Join(system.Type(ctx, kind, limit), system.Add(ctx, kind, s.size.cycles)); err != nil {
			return nil, err
		}
	}
	river, dbos, err := s.peers(ctx)
	if err != nil {
		return nil, err
	}
	return s.measure(ctx, figures.Group{
		Name: fmt.Sprintf("%d whole syncs with nothing to do, one worker of %d slots", s.size.cycles, ours.Slots),
		Measurements: []figures.Measurement{
			s.cyclesOf(system, uncapped, free),
			s.cyclesOf(system, underCap, capped),
			{Figures: rates("River: InsertManyFast", "River: work jobs that do nothing", riverBoth), Take: func(ctx context.Context) ([]float64, error) {
				return river.Rates(ctx, s.size.dispatch)
			}},
			{Figures: rates("DBOS: enqueue", "DBOS: work workflows that do nothing", "DBOS: enqueue and work"),
				Take: func(ctx context.Context) ([]float64, error) { return dbos.Rates(ctx, s.size.workflow) }},
		},
		Ratios: []figures.Ratio{
			{Name: "our cycle, no cap / River: insert and work", Of: uncapped, To: []string{riverBoth}, AtLeast: 0.5, LongOnly: true},
			{Name: "our cycle, cap of 64 / no cap", Of: underCap, To: []string{uncapped}, AtLeast: 0.8, LongOnly: true},
		},
	})
}

func (s *session) peers(ctx context.Context) (*peers.River, *peers.DBOS, error) {
	urls := map[string]string{}
	for _, name := range []string{"river", "dbos"} {
		var err error
		if urls[name], err = s.place.Database(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	river, err := peers.NewRiver(ctx, urls["river"], s.place.Checkpoint, s.log)
	if err != nil {
		return nil, nil, err
	}
	s.onClose(func() error { river.Close(); return nil })
	return river, peers.NewDBOS(urls["dbos"], s.place.Checkpoint), nil
}

// inFlight compares whole syncs beside many runs that wait for a worker with the same beside few.
func (s *session) inFlight(ctx context.Context) ([]figures.Row, error) {
	g := figures.Group{Name: fmt.Sprintf("%d whole syncs beside runs in flight that stand still", s.size.cycles)}
	var names []string
	for _, n := range []int{s.size.few, s.size.many} {
		system, dispatcher, err := s.system(ctx, fmt.Sprintf("flight%d", n), s.size.cycles)
		if err != nil {
			return nil, err
		}
		if err := dispatcher.StandStill(ctx, nobodys, n); err != nil {
			return nil, err
		}
		if err := s.closeLast(); err != nil { // its connections would be counted with those of the services
			return nil, err
		}
		names = append(names, fmt.Sprintf("our cycle beside %d in flight", n))
		g.Measurements = append(g.Measurements, s.cyclesOf(system, names[len(names)-1], free))
	}
	g.Ratios = []figures.Ratio{{
		Name: fmt.Sprintf("beside %d in flight / beside %d", s.size.many, s.size.few), Of: names[1], To: names[:1], AtLeast: 0.8,
	}}
	return s.measure(ctx, g)
}

func (s *session) closeLast() error {
	last := len(s.closes) - 1
	end := s.closes[last]
	s.closes = s.closes[:last]
	return end()
}

// atRest compares a tick, and then a dispatch, over many connectors with the same over few. The ticks come first: what a
// dispatch leaves for vacuum would be theirs to read.
func (s *session) atRest(ctx context.Context) ([]figures.Row, error) {
	ticks := figures.Group{Name: "tick with nothing due"}
	due := figures.Group{Name: fmt.Sprintf("dispatch of %d due among connectors at rest", s.size.due)}
	var tick, rate []string
	for _, n := range []int{s.size.few, s.size.atRest} {
		system, dispatcher, err := s.system(ctx, fmt.Sprintf("rest%d", n), s.size.due)
		if err != nil {
			return nil, err
		}
		for _, kind := range []string{"web", "file", "onedrive", "google_drive", "teams"} {
			if err := system.Add(ctx, kind, n/5); err != nil {
				return nil, err
			}
		}
		tick, rate = append(tick, fmt.Sprintf("tick over %d", n)), append(rate, fmt.Sprintf("our dispatch among %d", n))
		ticks.Measurements = append(ticks.Measurements, one(tick[len(tick)-1], "µs", func(ctx context.Context) (float64, error) {
			took, err := dispatcher.TickSeconds(ctx, s.size.ticks)
			return 1e6 * took, err
		}))
		due.Measurements = append(due.Measurements, one(rate[len(rate)-1], perSecond, func(ctx context.Context) (float64, error) {
			return dispatcher.Rate(ctx, free, s.size.due)
		}))
	}
	ticks.Ratios = []figures.Ratio{{Name: tick[1] + " / over " + strconv.Itoa(s.size.few), Of: tick[1], To: tick[:1], AtMost: 1.5}}
	due.Ratios = []figures.Ratio{{Name: rate[1] + " / among " + strconv.Itoa(s.size.few), Of: rate[1], To: rate[:1], AtLeast: 0.7}}
	quiet, err := s.measure(ctx, ticks)
	if err != nil {
		return nil, err
	}
	busy, err := s.measure(ctx, due)
	return append(quiet, busy...), err
}

// trigger measures how long a person waits who presses "sync now" while nothing else is to be done.
func (s *session) trigger(ctx context.Context) ([]figures.Row, error) {
	system, err := ours.New(ctx, s.place, "trigger", s.log)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(system.Type(ctx, free, 0), system.Add(ctx, free, 1)); err != nil {
		return nil, err
	}
	return s.measure(ctx, figures.Group{
		Name: fmt.Sprintf("trigger to pick-up, idle, %d triggers", s.size.triggers),
		Measurements: []figures.Measurement{{
			Figures: []figures.Figure{{Name: "trigger to pick-up, median", Unit: "ms"}, {Name: "trigger to pick-up, p99", Unit: "ms"}},
			Take: func(ctx context.Context) ([]float64, error) {
				p50, p99, err := system.PickUps(ctx, free, s.size.triggers)
				return []float64{p50, p99}, err
			},
		}},
	})
}

// conditions compares jobs that ask a condition first with as many that ask none.
func (s *session) conditions(ctx context.Context) ([]figures.Row, error) {
	n := s.size.due
	system, dispatcher, err := s.system(ctx, "conditions", n)
	if err != nil {
		return nil, err
	}
	if err := system.AddJobs(ctx, conditional, n); err != nil {
		return nil, err
	}
	const unmet, met, plain = "none is met: asked and skipped", "all are met: asked, claimed, published", "as many without a condition: claimed, published"
	asked := func(isMet bool) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return dispatcher.AskSeconds(ctx, conditional, n, isMet) }
	}
	return s.measure(ctx, figures.Group{
		Name: fmt.Sprintf("a tick with %d due jobs of one condition", n),
		Measurements: []figures.Measurement{
			one(unmet, "s", asked(false)), one(met, "s", asked(true)),
			one(plain, "s", func(ctx context.Context) (float64, error) {
				rate, err := dispatcher.Rate(ctx, free, n)
				return float64(n) / rate, err
			}),
		},
		Ratios: []figures.Ratio{{Name: "none is met / as many without a condition", Of: unmet, To: []string{plain}}},
	})
}

// ledger compares whole syncs with a ledger of many runs with the same with an empty one.
func (s *session) ledger(ctx context.Context) ([]figures.Row, error) {
	if s.size.ledger == 0 {
		return nil, nil
	}
	g := figures.Group{Name: fmt.Sprintf("%d whole syncs by the length of the ledger", s.size.cycles)}
	var names []string
	for _, n := range []int{0, s.size.ledger} {
		system, err := ours.New(ctx, s.place, fmt.Sprintf("ledger%d", n), s.log)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(system.Type(ctx, free, 0), system.Add(ctx, free, s.size.cycles)); err != nil {
			return nil, err
		}
		if n > 0 {
			if err := system.FillLedger(ctx, n); err != nil {
				return nil, err
			}
		}
		names = append(names, fmt.Sprintf("our cycle, %d runs in the ledger", n))
		g.Measurements = append(g.Measurements, s.cyclesOf(system, names[len(names)-1], free))
	}
	g.Ratios = []figures.Ratio{{Name: fmt.Sprintf("with %d runs in the ledger / with none", s.size.ledger), Of: names[1], To: names[:1]}}
	return s.measure(ctx, g)
}

// system is one of ours with n connectors of a type without a cap, and its dispatcher.
func (s *session) system(ctx context.Context, name string, n int) (*ours.System, *ours.Dispatcher, error) {
	system, err := ours.New(ctx, s.place, name, s.log)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(system.Type(ctx, free, 0), system.Add(ctx, free, n)); err != nil {
		return nil, nil, err
	}
	dispatcher, err := system.Dispatcher(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.onClose(dispatcher.Close)
	return system, dispatcher, nil
}

const perSecond = "/s"

func one(name, unit string, take func(context.Context) (float64, error)) figures.Measurement {
	return figures.Measurement{Figures: []figures.Figure{{Name: name, Unit: unit}}, Take: func(ctx context.Context) ([]float64, error) {
		value, err := take(ctx)
		return []float64{value}, err
	}}
}

func rates(names ...string) (all []figures.Figure) {
	for _, name := range names {
		all = append(all, figures.Figure{Name: name, Unit: perSecond})
	}
	return all
}

// cyclesOf measures the syncs of a type, and what each of them costs Postgres.
func (s *session) cyclesOf(system *ours.System, name, kind string) figures.Measurement {
	return figures.Measurement{
		Figures: []figures.Figure{
			{Name: name, Unit: perSecond}, {Name: name + ": WAL", Unit: "B each"}, {Name: name + ": buffers", Unit: "each"},
		},
		Take: func(ctx context.Context) ([]float64, error) {
			c, err := system.Cycles(ctx, kind, s.size.cycles)
			return []float64{c.Rate, c.WAL, c.Buffers}, err
		},
	}
}
