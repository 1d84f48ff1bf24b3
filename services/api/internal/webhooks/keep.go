package webhooks

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/telemetry"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const (
	// kept is how long a delivery is shown that is over.
	kept = 7 * 24 * time.Hour
	// keepBatch is how many go in one transaction, resealBatch how many secrets are sealed anew.
	keepBatch   = 1000
	resealBatch = 100
)

// Keep removes what is old, and seals secrets anew that are sealed with an older key, so that an operator may take that key away.
func (s *Service) Keep(ctx context.Context) error {
	for removed := int32(keepBatch); removed == keepBatch; {
		err := s.in(ctx, "webhooks.keep", func(ctx context.Context, q *dbgen.Queries) (err error) {
			removed, err = q.KeepWebhooks(ctx, dbgen.KeepWebhooksParams{Keep: kept, Batch: keepBatch})
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.in(ctx, "webhooks.reseal", func(ctx context.Context, q *dbgen.Queries) error {
		seconds, err := q.WebhooksWaiting(ctx)
		if err != nil {
			return err
		}
		s.metrics.oldest.Set(max(0, seconds))
		return s.reseal(ctx, q)
	})
}

func (s *Service) reseal(ctx context.Context, q *dbgen.Queries) error {
	if s.ring == nil {
		return nil
	}
	found, err := q.WebhooksToReseal(ctx, dbgen.WebhooksToResealParams{KeyID: s.ring.Current(), After: s.resealed, Most: resealBatch})
	if err != nil {
		return err
	}
	if s.resealed = 0; len(found) == resealBatch { // those that do not open stay, and hold up none behind them
		s.resealed = found[len(found)-1].ID
	}
	for _, w := range found {
		p := dbgen.ResealWebhookParams{ID: w.ID, Was: w.Secret}
		if p.Sealed, err = s.ring.Reseal(w.ID, sealedField, w.Secret); err != nil {
			s.log.Warn("the secret of a webhook does not open: it is not sent to until the secret is rotated, or the API has its key", "webhook", w.ID, "key", secret.KeyOf(w.Secret), "err", err)
			continue
		}
		if w.OldSecret != "" {
			p.OldWas = &w.OldSecret
			if fresh, err := s.ring.Reseal(w.ID, sealedField, w.OldSecret); err == nil {
				p.OldSealed = &fresh
			} else {
				p.OldSealed = &w.OldSecret
			}
		}
		if err := q.ResealWebhook(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

type metrics struct {
	tries  *prometheus.CounterVec
	oldest prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	return &metrics{
		tries: telemetry.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "api_webhook_tries_total", Help: "Requests to webhooks, by what came of them: delivered, retried, failed (for good), gone, withheld (its secret does not open).",
		}, []string{"result"})),
		oldest: telemetry.Register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "api_webhook_oldest_waiting_seconds", Help: "How long the oldest delivery has waited that is not over; 0 where none waits.",
		})),
	}
}

func (m *metrics) tried(result string) { m.tries.WithLabelValues(result).Inc() }
