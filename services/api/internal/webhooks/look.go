package webhooks

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const (
	// pageFaults is how many connectors one statement looks at, pageTold how many that a webhook was told of, and as many others, are compared in one transaction: where 799 messages wait for it, no more than 1,000 do after that.
	pageFaults = 500
	pageTold   = 100
	// mostMessage is how long a text may be that says why, in characters.
	mostMessage = 1000
)

// Look notes which connectors are not well, and compares that with what each webhook was told whose turn it is: those that may have something to tell, and now and then each. Where the turns of webhooks have no end, what is not well
// is noted again between them.
func (s *Service) Look(ctx context.Context) error {
	for more, found := true, true; more || found; {
		var err error
		if more, err = s.noteFaults(ctx); err != nil {
			return err
		}
		found = true
		for begun := time.Now(); found && time.Since(begun) < lookEvery; {
			if found, err = s.lookAtNext(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteFaults says whether the look goes on, or calls of very many webhooks do: of a million it takes minutes, and webhooks are told meanwhile. A page holds up to pageFaults connectors, whose moves wait for it: it is one trip, so
// that it ends also where this process is stopped meanwhile.
func (s *Service) noteFaults(ctx context.Context) (more bool, err error) {
	more = true
	for begun := time.Now(); more && time.Since(begun) < lookEvery; {
		err := s.ask(ctx, "webhooks.faults", func(ctx context.Context) (err error) {
			more, err = dbgen.New(postgres.OneTrip{Pool: s.pool, Bounds: bounds()}).NoteFaults(ctx, dbgen.NoteFaultsParams{Every: lookEvery, Page: pageFaults})
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return more, nil
}

// lookAtNext compares a page of the webhook whose turn it is. It says whether there was one. One whose look fails is looked at later, and others go on.
func (s *Service) lookAtNext(ctx context.Context) (found bool, err error) {
	var id int32
	err = s.in(ctx, "webhooks.look", func(ctx context.Context, q *dbgen.Queries) (err error) {
		id = 0
		if id, err = q.NextLook(ctx); err != nil || id == 0 {
			return err
		}
		return s.lookAt(ctx, q, id)
	})
	if err == nil || id == 0 || ctx.Err() != nil {
		return id != 0, err
	}
	s.log.Warn("a webhook is told later", "webhook", id, "err", err)
	return true, s.in(ctx, "webhooks.postpone", func(ctx context.Context, q *dbgen.Queries) error {
		return q.PostponeLook(ctx, dbgen.PostponeLookParams{ID: id, Every: lookEvery})
	})
}

func (s *Service) lookAt(ctx context.Context, q *dbgen.Queries, id int32) error {
	rows, err := q.LookWebhook(ctx, dbgen.LookWebhookParams{ID: id, Every: reviewEvery, Page: pageTold})
	if err != nil || len(rows) == 0 {
		return err
	}
	p := dbgen.TellWebhookParams{ID: id}
	for _, row := range rows {
		body, err := s.bodyOf(row)
		if err != nil {
			return err
		}
		p.Connectors, p.States, p.Types = append(p.Connectors, row.ConnectorID), append(p.States, row.State), append(p.Types, row.Tells)
		p.MessageIds, p.Bodies = append(p.MessageIds, NewMessageID()), append(p.Bodies, body)
	}
	return q.TellWebhook(ctx, p)
}

// Message is what a webhook is sent.
type Message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data is what a message says of a connector. It has no content, no configuration and no secret.
type Data struct {
	ConnectorID   int32     `json:"connector_id"`
	Name          string    `json:"name"`
	ConnectorType string    `json:"connector_type"`
	State         string    `json:"state"`
	Since         time.Time `json:"since"`
	// Reason is a code, as events have it, of why a sync failed.
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	LastSyncAt *time.Time `json:"last_sync_at,omitempty"`
	URL        string     `json:"url,omitempty"`
}

func (s *Service) bodyOf(row dbgen.LookWebhookRow) (string, error) {
	d := Data{
		ConnectorID: row.ConnectorID, Name: row.Name, ConnectorType: row.Type, State: row.Stands, Since: row.Since.UTC(), Message: secret.Short(row.Message, mostMessage),
		Reason: events.ReasonCode(row.Reason, func(reason string) bool {
			_, known := lifecycle.Reasons[lifecycle.Reason(reason)]
			return known
		}),
	}
	if at := row.LastSyncAt.UTC(); at.Unix() != 0 {
		d.LastSyncAt = &at
	}
	if s.config.PageURL != "" {
		d.URL = s.config.PageURL + "/sources/" + strconv.Itoa(int(row.ConnectorID))
	}
	return encoded(Message{Type: row.Tells, Timestamp: row.Now.UTC(), Data: d})
}

// TestBody is what a test sends.
func TestBody(webhook int32, now time.Time) (string, error) {
	return encoded(map[string]any{"type": "webhook.test", "timestamp": now.UTC(), "data": map[string]any{"webhook_id": webhook}})
}

func encoded(message any) (string, error) {
	text, err := json.Marshal(message)
	return string(text), err
}
