package api

import (
	"context"
	"net/http"
	"time"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

func (a *API) blackoutRoutes() {
	register(a, identity.ListBlackouts, http.MethodGet, "/blackouts", "List the blackout windows that may hold your connectors", http.StatusOK, a.listBlackouts)
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
	UpdatedAt        time.Time  `json:"updated_at"`
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
		v := Blackout{
			Name: b.Name, Calendar: b.Calendar, UserID: b.UserID, Type: b.Type, Provider: b.Provider, ExceptConnectors: append([]int32{}, b.ExceptConnectors...),
			Mode: b.Mode, SpreadMinutes: b.SpreadMinutes, UpdatedAt: b.UpdatedAt.UTC(),
		}
		var unread error
		if v.Stands, v.Until, unread = (blackouts.Row{Name: b.Name, Mode: b.Mode, TimeZone: b.TimeZone, Entries: b.Entries}).Standing(now); unread != nil {
			v.Problem = new(unread.Error())
		}
		v.Until = utc(v.Until)
		out.Body.Blackouts[i] = v
	}
	if more {
		out.Body.NextPageToken = next(found[len(found)-1].Name)
	}
	return out, nil
}
