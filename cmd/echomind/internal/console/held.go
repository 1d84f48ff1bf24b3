package console

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/sdk/client"
)

// tellHeld is that of the database, as far as a server shows windows: it does not say which types have the provider of one.
func (r *remote) tellHeld(ctx context.Context, w io.Writer, id int32) error {
	h, is, err := r.held(ctx, id)
	if forbidden(err) { // a token may trigger what it may not read
		return nil
	}
	if err != nil || !is {
		return r.said(err)
	}
	return sayHeld(w, id, h)
}

// held says which window holds a connector now. Of several windows it is the one with the latest end; where ends are equal, the first by name.
func (r *remote) held(ctx context.Context, id int32) (h slots.Held, is bool, err error) {
	stand, err := readPages(ctx, "blackouts", func(token *string) ([]byte, error) {
		answer, err := r.api.BlackoutsListWithResponse(ctx, &client.BlackoutsListParams{PageSize: new(int32(pageSize)), PageToken: token})
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, never[client.Blackout])
	if err != nil {
		return h, false, fmt.Errorf("list the blackout windows: %w", err)
	}
	stand = slices.DeleteFunc(stand, func(b client.Blackout) bool { return !b.Stands || b.Provider != nil })
	if len(stand) == 0 {
		return h, false, nil
	}
	found, _, err := r.connector(ctx, id)
	if err != nil {
		return h, false, err
	}
	who := blackouts.Who{ID: id, Type: found.Type}
	if found.UserID != nil {
		who.UserID = *found.UserID
	}
	var last *client.Blackout
	for i, b := range stand {
		window := blackouts.Window{UserID: b.UserID, Except: b.ExceptConnectors}
		if b.Type != nil {
			window.Types = []string{*b.Type}
		}
		if window.Holds(who) && (last == nil || last.Until != nil && (b.Until == nil || b.Until.After(*last.Until))) {
			last = &stand[i]
		}
	}
	if last == nil {
		return h, false, nil
	}
	times, err := r.api.CalendarsGetWithResponse(ctx, last.Calendar)
	if err != nil {
		return h, false, fmt.Errorf("read the calendar of blackout window %s: %w", last.Name, err)
	}
	of, err := readAs[client.OneCalendarBody](times.Body)
	if err != nil {
		return h, false, err
	}
	zone, err := time.LoadLocation(of.TimeZone)
	if err != nil {
		zone = time.UTC
	}
	h.Blackout = &slots.Blackout{Name: last.Name, Zone: zone}
	if last.Until != nil {
		h.End = *last.Until
	}
	return h, true, nil
}
