package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) webhookRoutes() {
	register(a, identity.ListWebhooks, http.MethodGet, "/webhooks", "List your webhooks", http.StatusOK, a.listWebhooks)
	register(a, identity.CreateWebhook, http.MethodPost, "/webhooks", "Add a webhook; its secret is shown this once", http.StatusCreated, a.createWebhook)
	register(a, identity.GetWebhook, http.MethodGet, "/webhooks/{id}", "Show a webhook", http.StatusOK, a.getWebhook, mayBeMissing)
	register(a, identity.UpdateWebhook, http.MethodPatch, "/webhooks/{id}", "Change a webhook; one that is switched on begins anew", http.StatusOK, a.updateWebhook, mayBeMissing)
	register(a, identity.DeleteWebhook, http.MethodDelete, "/webhooks/{id}", "Delete a webhook, and what it was sent", http.StatusNoContent, a.deleteWebhook, mayBeMissing)
	register(a, identity.RotateWebhook, http.MethodPost, "/webhooks/{id}/secret", "Give a webhook another secret, which is shown this once; for 24 hours what was its secret signs as well", http.StatusOK, a.rotateWebhook, mayBeMissing)
	register(a, identity.TestWebhook, http.MethodPost, "/webhooks/{id}/test", "Send a test, also where the webhook is switched off", http.StatusAccepted, a.testWebhook, mayBeMissing)
	register(a, identity.ListDeliveries, http.MethodGet, "/webhooks/{id}/deliveries", "List what a webhook is and was sent, the latest first, for a week", http.StatusOK, a.listDeliveries, mayBeMissing)
	register(a, identity.ReplayDelivery, http.MethodPost, "/webhooks/{id}/deliveries/{delivery}/replay", "Send a delivery again, under its id", http.StatusAccepted, a.replayDelivery, mayBeMissing)
}

// Webhook is a URL that is told what becomes of connectors.
type Webhook struct {
	ID             int32      `json:"id"`
	UserID         int32      `json:"user_id" doc:"Whose it is: it is told of what they see."`
	RoleNow        string     `json:"role_now" enum:"user,admin,superadmin" doc:"As what they see it: at most what they were when they made it, and are now; above user as long as the token counts that made it, or while an administrator says so of them."`
	Name           string     `json:"name"`
	URL            string     `json:"url" doc:"Of somebody else's webhook only where it leads: scheme and host, and /… for a path or a query. Empty for a token without the scope read."`
	ConnectorID    *int32     `json:"connector_id" doc:"The one connector that it is about; null = all that its owner sees."`
	Events         []string   `json:"events" enum:"failed,disabled,stale,recovered"`
	Enabled        bool       `json:"enabled"`
	DisabledReason *string    `json:"disabled_reason" doc:"Why the service has switched it off; null where it is on, or a person has switched it off."`
	FailingSince   *time.Time `json:"failing_since" doc:"Since when nothing has arrived that was sent; null where the last did."`
	OldSecretUntil *time.Time `json:"old_secret_until" doc:"Until when what was its secret signs as well."`
	Secret         string     `json:"secret,omitempty" doc:"What signatures are checked with, where it was just made. It is shown this once, and not to a request that is repeated."`
	CreatedAt      time.Time  `json:"created_at"`
	CreatedBy      *string    `json:"created_by"`
	UpdatedAt      time.Time  `json:"updated_at"`
}

func viewWebhook(who identity.Who, w dbgen.ApiWebhook) Webhook {
	v := Webhook{
		ID: w.ID, UserID: w.UserID, RoleNow: w.RoleNow, Name: w.Name, ConnectorID: w.ConnectorID, Events: w.Events, Enabled: w.Enabled, DisabledReason: shownText(w.DisabledReason),
		FailingSince: utc(w.FailingSince), OldSecretUntil: utc(w.OldSecretUntil), CreatedAt: w.CreatedAt.UTC(), CreatedBy: w.CreatedBy, UpdatedAt: w.UpdatedAt.UTC(),
	}
	if who.Has(identity.Read) {
		v.URL = shownURL(w.Url, who.UserID == w.UserID)
	}
	return v
}

// withheld ends a URL of which not all is shown.
const withheld = "/…"

// shownURL is a webhook's URL. Many receivers know a sender by the path or the query: to others than the owner these are secrets.
func shownURL(whole string, isOwn bool) string {
	to, err := url.Parse(whole)
	switch {
	case isOwn:
		return whole
	case err != nil:
		return withheld
	case to.RawQuery == "" && (to.Path == "" || to.Path == "/"):
		return whole
	}
	return to.Scheme + "://" + to.Host + withheld
}

// address checks where a webhook is to lead.
func (a *API) address(whole string) (string, error) {
	if strings.HasSuffix(whole, withheld) {
		return "", problem.Invalid("body.url", "is what is shown of somebody else's; give the whole URL, or leave the field out")
	}
	checked, err := a.webhooks.Address(whole)
	if err != nil {
		return "", problem.Invalid("body.url", err.Error())
	}
	return checked, nil
}

// OneWebhook is one webhook with its version.
type OneWebhook struct {
	ETag string `header:"ETag" doc:"Its version: If-Match of a change."`
	Body Webhook
}

func noWebhook(id int32) error { return problem.NotFound(fmt.Sprintf("webhook %d", id)) }

// put reads a webhook into an answer.
func (o *OneWebhook) put(ctx context.Context, q *dbgen.Queries, id int32) error {
	found, err := q.GetWebhook(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return noWebhook(id)
	}
	if err == nil {
		shown := o.Body.Secret
		o.ETag, o.Body = version(found.Version), viewWebhook(requestOf(ctx).Who, found)
		o.Body.Secret = shown
	}
	return err
}

// WebhookFilter is what may be asked of a list of webhooks.
type WebhookFilter struct {
	UserID int64 `query:"user_id" minimum:"1" maximum:"2147483647" format:"int32" doc:"Whose; a superadmin sees everybody's."`
}

// WebhookList is how webhooks are asked for.
type WebhookList struct {
	WebhookFilter
	Paging
}

// WebhookPage is one page of webhooks.
type WebhookPage struct {
	Body struct {
		Webhooks      []Webhook `json:"webhooks"`
		NextPageToken *string   `json:"next_page_token"`
	}
}

func (a *API) listWebhooks(ctx context.Context, in *WebhookList) (*WebhookPage, error) {
	p := dbgen.ListWebhooksParams{UserID: given(int32(in.UserID)), Page: in.most() + 1}
	who := requestOf(ctx).Who
	if p.UserID == nil && !who.Role.AtLeast(identity.Superadmin) {
		p.UserID = &who.UserID // so that nobody else's are read
	}
	next, err := a.place(ctx, in.PageToken, in.WebhookFilter, &p.After)
	if err != nil {
		return nil, err
	}
	out := &WebhookPage{}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		found, err := q.ListWebhooks(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Webhooks = make([]Webhook, len(found))
		for i, w := range found {
			out.Body.Webhooks[i] = viewWebhook(who, w)
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].ID)
		}
		return nil
	})
	return out, err
}

func (a *API) getWebhook(ctx context.Context, in *ByID) (*OneWebhook, error) {
	out := &OneWebhook{}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error { return out.put(ctx, q, in.number()) })
	return out, err
}

// events are those that a webhook is to be told, each once.
func eventsOf(named []string) ([]string, error) {
	events := slices.Clone(named)
	slices.Sort(events)
	events = slices.Compact(events)
	if len(events) == 0 {
		return []string{"failed", "disabled", "stale", "recovered"}, nil
	}
	if slices.Equal(events, []string{"recovered"}) {
		return nil, problem.Invalid("body.events", "recovered is told after failed, disabled or stale: name one of these as well")
	}
	return events, nil
}
