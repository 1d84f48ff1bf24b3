package webhooks

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const (
	// mostWebhooks is how many webhooks a replica sends to at once, mostOfOne how much of one at once.
	mostWebhooks = 32
	mostOfOne    = 4
	// lease is how long a webhook is one sender's: longer than its requests, and what is written of them, may take.
	lease = 2 * time.Minute
	// writeTimeout bounds how long a sender that is stopped has to write what has come of what it sent, and to give its webhook back.
	writeTimeout = 3 * time.Second
	// postponed is how long a webhook is left alone that could not be claimed.
	postponed = 15 * time.Second
	// unopened is how long a webhook is left alone whose secret does not open.
	unopened = 10 * time.Minute
)

// claim is a webhook that is sent to, and what it is sent.
type claim struct {
	id int32
	// sender names this claim: it counts until there is another of the webhook.
	sender      uuid.UUID
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
		c, found, err := s.claimNext(ctx)
		if c == nil {
			<-s.turns
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil || !found:
				return err
			}
			continue
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

// claimNext claims the webhook whose turn it is. found says whether there was one. A webhook that cannot be claimed is sent to later, and others go on.
func (s *Service) claimNext(ctx context.Context) (c *claim, found bool, err error) {
	var id int32
	err = s.in(ctx, "webhooks.claim", func(ctx context.Context, q *dbgen.Queries) (err error) {
		c, id = nil, 0
		if id, err = q.NextSend(ctx); err != nil || id == 0 {
			return err
		}
		c, err = claimed(ctx, q, id)
		return err
	})
	if err == nil || id == 0 || ctx.Err() != nil {
		return c, id != 0, err
	}
	s.log.Warn("a webhook is sent to later: it could not be claimed", "webhook", id, "err", err)
	return nil, true, s.in(ctx, "webhooks.postpone_send", func(ctx context.Context, q *dbgen.Queries) error {
		return q.PostponeSend(ctx, dbgen.PostponeSendParams{ID: id, Every: postponed})
	})
}

// claimed claims a webhook that the transaction holds; nil: it is not to be sent to.
func claimed(ctx context.Context, q *dbgen.Queries, id int32) (*claim, error) {
	sender := uuid.New()
	rows, err := q.ClaimWebhook(ctx, dbgen.ClaimWebhookParams{ID: id, Sender: sender, Lease: lease, Most: mostOfOne})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	first := rows[0]
	c := &claim{id: first.WebhookID, sender: sender, url: first.Url, secrets: []string{first.Secret}, failedTurns: first.FailedTurns, deliveries: rows[1:]}
	if first.OldSecret != "" {
		c.secrets = append(c.secrets, first.OldSecret)
	}
	return c, nil
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
	came := s.cameOf(c, outcomes)
	if err := s.note(ctx, came); err == nil || ctx.Err() == nil {
		return err
	}
	// Where all is cut off the webhook is given back: nobody waits for the lease to end.
	return deadline.Do(context.WithoutCancel(ctx), "webhooks.note_stopped", writeTimeout, func(ctx context.Context) error { return s.note(ctx, came) })
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

// cameOf is what is written of a turn.
func (s *Service) cameOf(c *claim, outcomes []outcome) dbgen.NoteDeliveriesParams {
	p := dbgen.NoteDeliveriesParams{
		ID: c.id, Sender: c.sender, MostFailing: s.config.MostFailing,
		Deliveries: []int64{}, Tries: []int32{}, Delivered: []bool{}, Retries: []float64{}, Statuses: []int32{}, Errors: []string{},
	}
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
	return p
}

// note writes what has come of a turn, and gives the webhook back. A webhook that was claimed again meanwhile is left to its next sender.
func (s *Service) note(ctx context.Context, p dbgen.NoteDeliveriesParams) error {
	return s.in(ctx, "webhooks.note", func(ctx context.Context, q *dbgen.Queries) error {
		disabled, err := q.NoteDeliveries(ctx, p)
		if err == nil && disabled != "" {
			s.log.Warn("a webhook is switched off, and tells no more until its owner switches it on", "webhook", p.ID, "reason", disabled)
		}
		return err
	})
}
