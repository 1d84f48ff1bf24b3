package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/api/internal/webhooks"
)

// NewWebhook is a webhook that is to be added.
type NewWebhook struct {
	Once
	Body struct {
		Name        string   `json:"name,omitempty" maxLength:"200" doc:"What it is for."`
		URL         string   `json:"url" maxLength:"2000" doc:"Where messages are sent, by https. http, loopback and private addresses are for what the operator lists."`
		ConnectorID *int64   `json:"connector_id,omitempty" nullable:"true" minimum:"1" maximum:"2147483647" format:"int32" doc:"The one connector that it is about; null = all that you see."`
		Events      []string `json:"events,omitempty" maxItems:"4" enum:"failed,disabled,stale,recovered" doc:"What it is told; all, where you do not say."`
		Enabled     *bool    `json:"enabled,omitempty" doc:"true, where you do not say."`
	}
}

// noKey is of an API that cannot seal.
func (a *API) noKey() error {
	if a.ring != nil {
		return nil
	}
	return problem.Conflict("This API has no key that secrets of webhooks are sealed with.", "Have the operator give the API SECRETS_KEY_FILE, or SECRETS_KEY: what `echomind secrets key` prints.")
}

// readsToo refuses a token that may not read: what a webhook is told of, its receiver reads.
func readsToo(ctx context.Context) error {
	if !requestOf(ctx).Has(identity.Read) {
		return problem.InsufficientScope(string(identity.Read))
	}
	return nil
}

func (a *API) createWebhook(ctx context.Context, in *NewWebhook) (*OneWebhook, error) {
	if err := errors.Join(readsToo(ctx), a.noKey()); err != nil {
		return nil, err
	}
	url, err := a.address(in.Body.URL)
	if err != nil {
		return nil, err
	}
	p := dbgen.AddWebhookParams{UserID: requestOf(ctx).UserID, Name: in.Body.Name, Url: url, Enabled: in.Body.Enabled == nil || *in.Body.Enabled}
	if strings.ContainsRune(p.Name, 0) {
		return nil, problem.Invalid("body.name", "must be a name")
	}
	if p.Events, err = eventsOf(in.Body.Events); err != nil {
		return nil, err
	}
	if in.Body.ConnectorID != nil {
		p.ConnectorID = new(int32(*in.Body.ConnectorID))
	}
	out, secret := &OneWebhook{}, webhooks.NewSecret()
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if p.ID, err = q.NextWebhook(ctx); err != nil {
			return "", err
		}
		if p.Secret, err = webhooks.Seal(a.ring, p.ID, secret); err != nil {
			return "", err
		}
		return strconv.Itoa(int(p.ID)), refusedWebhook(q.AddWebhook(ctx, p), p.ConnectorID)
	}, func(ctx context.Context, q *dbgen.Queries, done string) error {
		id, err := number(done)
		if err != nil {
			return err
		}
		if err := out.put(ctx, q, id); err != nil || id != p.ID { // else it was shown before
			return err
		}
		out.Body.Secret = secret
		return nil
	})
	return out, err
}

// refusedWebhook says which value the database does not take; other errors stay.
func refusedWebhook(err error, connector *int32) error {
	switch postgres.Constraint(err) {
	case "webhooks_connector_seen":
		return problem.Invalid("body.connector_id", fmt.Sprintf("%d is no connector that you see", *connector))
	case "webhooks_most":
		return problem.Conflict("You have 20 webhooks.", "Delete one, or have one told of more.")
	}
	return err
}

// ChangedWebhook is what is to change of a webhook.
type ChangedWebhook struct {
	Versioned
	Body struct {
		Name        *string      `json:"name,omitempty" maxLength:"200"`
		URL         *string      `json:"url,omitempty" maxLength:"2000"`
		ConnectorID Field[int32] `json:"connector_id,omitempty" minimum:"1" doc:"null = all that its owner sees."`
		Events      []string     `json:"events,omitempty" minItems:"1" maxItems:"4" enum:"failed,disabled,stale,recovered"`
		Enabled     *bool        `json:"enabled,omitempty" doc:"false: what waits is dropped. true: it is told anew of what is not well."`
	}
}

// lockedWebhook locks a webhook for a change.
func lockedWebhook(ctx context.Context, q *dbgen.Queries, id int32) (dbgen.LockWebhookRow, error) {
	found, err := q.LockWebhook(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, noWebhook(id)
	}
	return found, err
}

func (a *API) updateWebhook(ctx context.Context, in *ChangedWebhook) (out *OneWebhook, err error) {
	if err := readsToo(ctx); err != nil {
		return nil, err
	}
	var url string
	if in.Body.URL != nil {
		if url, err = a.address(*in.Body.URL); err != nil {
			return nil, err
		}
	}
	if strings.ContainsRune(text(in.Body.Name), 0) {
		return nil, problem.Invalid("body.name", "must be a name")
	}
	var events []string
	if in.Body.Events != nil {
		if events, err = eventsOf(in.Body.Events); err != nil {
			return nil, err
		}
	}
	out = &OneWebhook{}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := lockedWebhook(ctx, q, in.number())
		if err != nil {
			return err
		}
		if err := in.matches(version(stands.Version)); err != nil {
			return err
		}
		p := dbgen.ChangeWebhookParams{ID: in.number(), Name: stands.Name, Url: stands.Url, ConnectorID: stands.ConnectorID, Events: stands.Events, Enabled: stands.Enabled}
		if in.Body.Name != nil {
			p.Name = *in.Body.Name
		}
		if url != "" {
			p.Url = url
		}
		if events != nil {
			p.Events = events
		}
		if in.Body.Enabled != nil {
			p.Enabled = *in.Body.Enabled
		}
		in.Body.ConnectorID.put(&p.ConnectorID)
		if err := q.ChangeWebhook(ctx, p); err != nil {
			return refusedWebhook(err, p.ConnectorID)
		}
		return out.put(ctx, q, in.number())
	})
	return out, err
}

func (a *API) deleteWebhook(ctx context.Context, in *Versioned) (*Nothing, error) {
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := lockedWebhook(ctx, q, in.number())
		if err != nil {
			return err
		}
		if err := in.matches(version(stands.Version)); err != nil {
			return err
		}
		return q.DeleteWebhook(ctx, in.number())
	})
	return &Nothing{}, err
}

func (a *API) rotateWebhook(ctx context.Context, in *OnceByID) (*OneWebhook, error) {
	if err := a.noKey(); err != nil {
		return nil, err
	}
	secret, out := webhooks.NewSecret(), &OneWebhook{}
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if _, err := lockedWebhook(ctx, q, in.number()); err != nil {
			return "", err
		}
		sealed, err := webhooks.Seal(a.ring, in.number(), secret)
		if err != nil {
			return "", err
		}
		out.Body.Secret = secret
		return "", q.RotateWebhook(ctx, dbgen.RotateWebhookParams{ID: in.number(), Secret: sealed})
	}, func(ctx context.Context, q *dbgen.Queries, _ string) error { return out.put(ctx, q, in.number()) })
	return out, err
}
