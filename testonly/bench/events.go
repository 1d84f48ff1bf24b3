package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomind/sync/testonly/bench/figures"
	"github.com/echomind/sync/testonly/bench/ours"
)

// events measures how long verdicts take into the stream of events, at a thousand a second where the machine does as many.
func (s *session) events(ctx context.Context) ([]figures.Row, error) {
	system, err := ours.New(ctx, s.place, "events", s.log)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(system.Type(ctx, free, 0), system.Add(ctx, free, s.size.cycles)); err != nil {
		return nil, err
	}
	return s.measure(ctx, figures.Group{
		Name: fmt.Sprintf("%d verdicts told, of connectors that become due a thousand a second", s.size.cycles),
		Measurements: []figures.Measurement{{
			Figures: []figures.Figure{{Name: "verdicts", Unit: perSecond}, {Name: "told after, p50", Unit: "ms"}, {Name: "told after, p99", Unit: "ms"}, {Name: "told after, at most", Unit: "ms"}},
			Take: func(ctx context.Context) ([]float64, error) {
				rate, lags, err := system.Told(ctx, free, s.size.cycles)
				if err != nil {
					return nil, err
				}
				return []float64{rate, figures.Quantile(lags, 0.5), figures.Quantile(lags, 0.99), slices.Max(lags)}, nil
			},
		}},
	})
}
