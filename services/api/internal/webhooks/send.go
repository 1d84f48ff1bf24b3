package webhooks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const (
	// mostWebhooks is how many webhooks a replica sends to at once, mostOfOne how much of one at once.
	mostWebhooks = 32
	mostOfOne    = 4
	// lease is how long a webhook is one sender's: longer than its requests, and what is written of them, may take.
	lease = 2 * time.Minute
	// writeTimeout bounds how long a sender that is stopped has to write what has come of what it sent.
	writeTimeout = 3 * time.Second
	// unopened is how long a webhook is left alone whose secret does not open.
	unopened = 10 * time.Minute
)

// claim is a webhook that is sent to, and what it is sent.
type claim struct {
	id          int32
	url         string
	secrets     []string
	failedTurns int32
	deliveries  []dbgen.ClaimWebhookRow
}

// Send begins to send what is due, and does not wait for it: Wait does.
func (s *Service) Send(ctx context.Context) error {
	for {
		select {
		case s.turns <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := s.claim(ctx)
		if err != nil || c == nil {
			<-s.turns
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		s.sending.Go(func() {
			defer func() { <-s.turns }()
			if err := caught.Do(func() error { return s.turn(ctx, c) }); err != nil && ctx.Err() == nil {
				s.log.Warn("what has come of deliveries is not written: they are sent again", "webhook", c.id, "err", err)
			}
		})
	}
}

// Wait returns once everything is sent that was begun.
func (s *Service) Wait() { s.sending.Wait() }

// claim takes one webhook that has something to send; nil: there is none.
func (s *Service) claim(ctx context.Context) (c *claim, err error) {
	err = s.in(ctx, "webhooks.claim", func(ctx context.Context, q *dbgen.Queries) error {
		c = nil
		rows, err := q.ClaimWebhook(ctx, dbgen.ClaimWebhookParams{Lease: lease, Most: mostOfOne})
		if err != nil || len(rows) == 0 {
			return err
		}
		first := rows[0]
		c = &claim{id: first.WebhookID, url: first.Url, secrets: []string{first.Secret}, failedTurns: first.FailedTurns, deliveries: rows[1:]}
		if first.OldSecret != "" {
			c.secrets = append(c.secrets, first.OldSecret)
		}
		return nil
	})
	return c, err
}

// outcome is what has come of one request.
type outcome struct {
	// status is 0 where there was no answer.
	status int
	ok     bool
	// gone: the receiver wants no more.
	gone bool
	// ours: nothing was sent, for a reason of ours.
	ours bool
	// isCutOff: it was not waited for, since the service ends.
	isCutOff bool
	text     string
	// asked is how long the receiver asks to wait.
	asked time.Duration
}

// turn sends to one webhook, and writes what has come of it.
func (s *Service) turn(ctx context.Context, c *claim) error {
	outcomes := make([]outcome, len(c.deliveries))
	keys, err := s.keys(c)
	if err != nil {
		s.log.Error("a webhook is not sent to, since its secret does not open: give the API the key that it was sealed with, or rotate the secret", "webhook", c.id, "err", err)
		for i := range outcomes {
			outcomes[i] = outcome{ours: true, asked: unopened, text: "its secret cannot be opened; rotate it, or ask an operator"}
		}
	} else {
		var sent sync.WaitGroup
		for i, d := range c.deliveries {
			sent.Go(func() {
				outcomes[i] = s.post(ctx, c.url, keys, d.MessageID, d.Body)
				outcomes[i].isCutOff = ctx.Err() != nil && outcomes[i].status == 0
			})
		}
		sent.Wait()
	}
	if len(outcomes) > 0 && !slices.ContainsFunc(outcomes, func(o outcome) bool { return !o.isCutOff }) {
		return nil // they are sent again once the lease is over
	}
	return s.note(ctx, c, outcomes)
}

func (s *Service) keys(c *claim) (keys [][]byte, err error) {
	for i, envelope := range c.secrets {
		key, problem := keyOf(s.ring, c.id, envelope)
		if problem == nil {
			keys = append(keys, key)
		} else if i == 0 {
			return nil, problem
		}
	}
	return keys, nil
}

func (s *Service) note(ctx context.Context, c *claim, outcomes []outcome) error {
	p := dbgen.NoteDeliveriesParams{ID: c.id, MostFailing: s.config.MostFailing, Rest: 0}
	for i, o := range outcomes {
		if o.isCutOff { // it is due as it was
			continue
		}
		d := c.deliveries[i]
		retry, isAgain := again(d.Tries, o.asked)
		seconds := retry.Seconds()
		result := "retried"
		switch {
		case o.ours:
			result, seconds = "withheld", o.asked.Seconds()
		case o.ok:
			result = "delivered"
		case o.gone:
			result, seconds = "gone", -1
		case !isAgain:
			result, seconds = "failed", -1
		}
		s.metrics.tried(result)
		p.Gone, p.Ours = p.Gone || o.gone, p.Ours || o.ours
		p.Deliveries, p.Tries, p.Delivered = append(p.Deliveries, d.DeliveryID), append(p.Tries, d.Tries), append(p.Delivered, o.ok)
		p.Retries, p.Statuses, p.Errors = append(p.Retries, seconds), append(p.Statuses, int32(o.status)), append(p.Errors, o.text)
		p.Rest = max(p.Rest, restAfter(c.failedTurns+1, o.asked))
	}
	if ctx.Err() != nil {
		stopped, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		ctx = stopped
	}
	return s.in(ctx, "webhooks.note", func(ctx context.Context, q *dbgen.Queries) error {
		disabled, err := q.NoteDeliveries(ctx, p)
		if err == nil && disabled != "" {
			s.log.Warn("a webhook is switched off, and tells no more until its owner switches it on", "webhook", c.id, "reason", disabled)
		}
		return err
	})
}
