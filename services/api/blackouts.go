package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

func (a *API) blackoutRoutes() {
	register(a, identity.ListBlackouts, http.MethodGet, "/blackouts", "List the blackout windows that may hold your connectors", http.StatusOK, a.listBlackouts)
	register(a, identity.GetBlackout, http.MethodGet, "/blackouts/{name}", "Show a blackout window", http.StatusOK, a.getBlackout, mayBeMissing)
	register(a, identity.PutBlackout, http.MethodPut, "/blackouts/{name}", "Add a blackout window, or replace what one says", http.StatusOK, a.putBlackout)
	a.mayBeNew("/blackouts/{name}")
	register(a, identity.DeleteBlackout, http.MethodDelete, "/blackouts/{name}", "Delete a blackout window; those that wait for its end begin within its spread", http.StatusNoContent, a.deleteBlackout, mayBeMissing)
}

// Blackout is a time in which no run of some connectors begins. Of user_id, type and provider null is any.
type Blackout struct {
	Name             string     `json:"name"`
	Calendar         string     `json:"calendar" doc:"The calendar that has its times."`
	UserID           *int32     `json:"user_id" doc:"Whose connectors it holds."`
	Type             *string    `json:"type" doc:"Of which type."`
	Provider         *string    `json:"provider" doc:"Of the types that name this provider."`
	ExceptConnectors []int32    `json:"except_connectors" nullable:"false" doc:"Connectors that it does not hold, those that you see."`
	Mode             string     `json:"mode" enum:"skip,defer" doc:"What becomes of slots within it: they are skipped, or wait for its end."`
	SpreadMinutes    int32      `json:"spread_minutes" doc:"In how much time behind its end those that have waited begin."`
	Stands           bool       `json:"stands" doc:"Whether it holds now."`
	Until            *time.Time `json:"until" doc:"When it ends; null where it does not stand, or does not end within twelve years."`
	Problem          *string    `json:"problem" doc:"Why its calendar cannot be read: it holds nobody then."`
	Held             *int64     `json:"held" doc:"How many connectors wait for its end, up to 10,000; null for who is no superadmin."`
	CreatedAt        time.Time  `json:"created_at"`
	CreatedBy        *string    `json:"created_by" doc:"For admins."`
	UpdatedAt        time.Time  `json:"updated_at"`
	UpdatedBy        *string    `json:"updated_by" doc:"For admins."`
}

// BlackoutPage is one page of blackout windows.
type BlackoutPage struct {
	Body struct {
		Blackouts     []Blackout `json:"blackouts"`
		NextPageToken *string    `json:"next_page_token"`
	}
}

func (a *API) listBlackouts(ctx context.Context, in *Paging) (*BlackoutPage, error) {
	p, out := dbgen.ListBlackoutsParams{Page: in.most() + 1}, &BlackoutPage{}
	next, err := a.place(ctx, in.PageToken, "blackouts", &p.After)
	if err != nil {
		return nil, err
	}
	var found []dbgen.ListBlackoutsRow
	var now time.Time
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		if found, err = q.ListBlackouts(ctx, p); err != nil {
			return err
		}
		now, err = q.Now(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	found, more := cut(found, in.most())
	out.Body.Blackouts = make([]Blackout, len(found))
	for i, b := range found { // outside the transaction: rules of calendars may be many
		out.Body.Blackouts[i] = viewBlackout(blackoutRow{GetBlackoutRow: dbgen.GetBlackoutRow(b), now: now})
	}
	if more {
		out.Body.NextPageToken = next(found[len(found)-1].Name)
	}
	return out, nil
}

// blackoutRow is a window, and the time of the database.
type blackoutRow struct {
	dbgen.GetBlackoutRow
	now time.Time
}

func viewBlackout(b blackoutRow) Blackout {
	v := Blackout{
		Name: b.Name, Calendar: b.Calendar, UserID: b.UserID, Type: b.Type, Provider: b.Provider, ExceptConnectors: append([]int32{}, b.ExceptConnectors...),
		Mode: b.Mode, SpreadMinutes: b.SpreadMinutes, Held: b.Held,
		CreatedAt: b.CreatedAt.UTC(), CreatedBy: b.CreatedBy, UpdatedAt: b.UpdatedAt.UTC(), UpdatedBy: b.UpdatedBy,
	}
	var unread error
	if v.Stands, v.Until, unread = (blackouts.Row{Name: b.Name, Mode: b.Mode, TimeZone: b.TimeZone, Entries: b.Entries}).HoldsAt(b.now); unread != nil {
		v.Problem = new(unread.Error())
	}
	v.Until = utc(v.Until)
	return v
}

// OneBlackout is one window with its version.
type OneBlackout struct {
	Status int
	ETag   string `header:"ETag" doc:"Its version: If-Match of a change."`
	Body   Blackout
}

func blackoutOf(ctx context.Context, q *dbgen.Queries, name string) (b blackoutRow, err error) {
	b.GetBlackoutRow, err = q.GetBlackout(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, noBlackout(name)
	}
	if err == nil {
		b.now, err = q.Now(ctx)
	}
	return b, err
}

func (a *API) getBlackout(ctx context.Context, in *Named) (*OneBlackout, error) {
	var found blackoutRow
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		found, err = blackoutOf(ctx, q, in.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &OneBlackout{Status: http.StatusOK, ETag: version(found.Version), Body: viewBlackout(found)}, nil
}
