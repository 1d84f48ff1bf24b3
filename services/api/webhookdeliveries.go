package api

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/api/internal/webhooks"
)

// Delivery is a message to a webhook, and what has come of it.
type Delivery struct {
	ID          int64      `json:"id"`
	WebhookID   int32      `json:"webhook_id"`
	MessageID   string     `json:"message_id" doc:"The header webhook-id: the same for each try."`
	ConnectorID *int32     `json:"connector_id" doc:"Null for a test."`
	Type        string     `json:"type" enum:"connector.failed,connector.disabled,connector.stale,connector.recovered,webhook.test"`
	State       string     `json:"state" enum:"pending,delivered,failed,dropped" doc:"failed: its last try is over. dropped: it is not sent, for the reason in last_error."`
	Tries       int32      `json:"tries"`
	NextAt      *time.Time `json:"next_at" doc:"When it is sent next; null where it is over."`
	LastTryAt   *time.Time `json:"last_try_at"`
	LastStatus  *int32     `json:"last_status" doc:"What the receiver has answered; null where nothing has come."`
	LastError   *string    `json:"last_error"`
	CreatedAt   time.Time  `json:"created_at"`
	EndedAt     *time.Time `json:"ended_at"`
}

func viewDelivery(d dbgen.ApiWebhookDelivery) Delivery {
	return Delivery{
		ID: d.ID, WebhookID: d.WebhookID, MessageID: d.MessageID, ConnectorID: d.ConnectorID, Type: d.Type, State: d.State, Tries: d.Tries, NextAt: utc(d.NextAt),
		LastTryAt: utc(d.LastTryAt), LastStatus: d.LastStatus, LastError: shownText(d.LastError), CreatedAt: d.CreatedAt.UTC(), EndedAt: utc(d.EndedAt),
	}
}

// DeliveryFilter is what may be asked of a list of deliveries.
type DeliveryFilter struct {
	State string `query:"state" enum:"pending,delivered,failed,dropped"`
}

// DeliveryList is how deliveries are asked for.
type DeliveryList struct {
	ByID
	DeliveryFilter
	Paging
}

// DeliveryPage is one page of deliveries.
type DeliveryPage struct {
	Body struct {
		Deliveries    []Delivery `json:"deliveries"`
		NextPageToken *string    `json:"next_page_token"`
	}
}

func (a *API) listDeliveries(ctx context.Context, in *DeliveryList) (*DeliveryPage, error) {
	p := dbgen.ListDeliveriesParams{WebhookID: in.number(), Before: math.MaxInt64, State: given(in.State), Page: in.most() + 1}
	next, err := a.place(ctx, in.PageToken, []any{in.ID, in.DeliveryFilter}, &p.Before)
	if err != nil {
		return nil, err
	}
	out := &DeliveryPage{}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if _, err := q.GetWebhook(ctx, in.number()); errors.Is(err, pgx.ErrNoRows) {
			return noWebhook(in.number())
		} else if err != nil {
			return err
		}
		found, err := q.ListDeliveries(ctx, p)
		if err != nil {
			return err
		}
		found, more := cut(found, in.most())
		out.Body.Deliveries = make([]Delivery, len(found))
		for i, d := range found {
			out.Body.Deliveries[i] = viewDelivery(d)
		}
		if more {
			out.Body.NextPageToken = next(found[len(found)-1].ID)
		}
		return nil
	})
	return out, err
}

// OneDelivery is one delivery.
type OneDelivery struct {
	Body Delivery
}

func (o *OneDelivery) put(ctx context.Context, q *dbgen.Queries, webhook int32, id int64) error {
	found, err := q.GetDelivery(ctx, dbgen.GetDeliveryParams{WebhookID: webhook, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return problem.NotFound("delivery " + strconv.FormatInt(id, 10))
	}
	o.Body = viewDelivery(found)
	return err
}

func (a *API) testWebhook(ctx context.Context, in *OnceByID) (*OneDelivery, error) {
	out := &OneDelivery{}
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		now, err := q.Now(ctx)
		if err != nil {
			return "", err
		}
		body, err := webhooks.TestBody(in.number(), now)
		if err != nil {
			return "", err
		}
		made, err := q.TestWebhook(ctx, dbgen.TestWebhookParams{ID: in.number(), MessageID: webhooks.NewMessageID(), Body: body})
		if errors.Is(err, pgx.ErrNoRows) {
			return "", noWebhook(in.number())
		}
		return strconv.FormatInt(made, 10), err
	}, func(ctx context.Context, q *dbgen.Queries, done string) error {
		id, err := strconv.ParseInt(done, 10, 64)
		if err != nil {
			return err
		}
		return out.put(ctx, q, in.number(), id)
	})
	return out, err
}

// DeliveryOnce names one delivery of a webhook for a change that is done once.
type DeliveryOnce struct {
	OnceByID
	Delivery string `path:"delivery" maxLength:"19" pattern:"^[1-9][0-9]*$" doc:"The id of the delivery."`
}

func (a *API) replayDelivery(ctx context.Context, in *DeliveryOnce) (*OneDelivery, error) {
	id, err := strconv.ParseInt(in.Delivery, 10, 64)
	if err != nil {
		return nil, problem.Invalid("path.delivery", "must be the id of a delivery, 1 or more")
	}
	out := &OneDelivery{}
	err = a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		found, err := q.ReplayDelivery(ctx, dbgen.ReplayDeliveryParams{WebhookID: in.number(), ID: id})
		if err == nil && !found {
			err = problem.NotFound("delivery " + in.Delivery + " of such a webhook")
		}
		return "", err
	}, func(ctx context.Context, q *dbgen.Queries, _ string) error { return out.put(ctx, q, in.number(), id) })
	return out, err
}
