package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/sdk/client"
)

// mostPreviewed is how far a server looks.
const mostPreviewed = 31 * 24 * 60

// preview has a server go through the slots of a connector's schedule.
func (r *remote) preview(ctx context.Context, named string, span previewSpan, set []string) (none previewAnswer, _ error) {
	flag, minutes := span.flag()
	if minutes%60 != 0 || minutes > mostPreviewed {
		return none, usagef("%s %s: a server shows whole hours, and at most 31d; give such a time, or set DATABASE_URL", flag, every(minutes))
	}
	id, err := r.connectorID(ctx, named)
	if err != nil {
		return none, err
	}
	existing, _, err := r.connector(ctx, id)
	if err != nil {
		return none, err
	}
	p := client.ConnectorsSchedulePreviewParams{Hours: new(minutes / 60), Past: &span.past, TakesMinutes: &span.takes}
	other := existing.connectorRow()
	if len(set) > 0 {
		c, flags, err := setFlags(set, id)
		if err != nil {
			return none, err
		}
		fields, err := flags.fields(c, existing)
		if err != nil {
			return none, err
		}
		body, err := json.Marshal(fields)
		if err != nil {
			return none, err
		}
		p.Set = new(string(body))
		other = flags.changed(c, other)
	}
	answer, err := r.api.ConnectorsSchedulePreviewWithResponse(ctx, id, &p)
	if other.Calendar != nil && slices.ContainsFunc(wrongFields(err), func(f client.Field) bool { return f.Field == "query.set.calendar" }) {
		return none, fmt.Errorf("read the calendar: %w", noCalendar(*other.Calendar))
	}
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusConflict && refused.Problem.Detail != nil && *refused.Problem.Detail != "" { // a schedule or a calendar that cannot be read
		return none, errors.New(printable(*refused.Problem.Detail))
	}
	if err != nil {
		return none, connectorError(id, fmt.Sprintf("preview the schedule of connector %d", id), err)
	}
	shown, err := readAs[previewAnswer](answer.Body)
	if err == nil {
		err = r.is(shown.ConnectorID == id)
	}
	shown.Now.Schedule = refresh(view(existing.connectorRow()))
	if shown.Set != nil {
		shown.Set.Schedule = refresh(view(other))
	}
	return shown, err
}

// connectorRow is what of a connector its schedule is shown by.
func (v connector) connectorRow() dbgen.Connector {
	return dbgen.Connector{
		ID: v.ID, RefreshFreqMinutes: v.RefreshFreqMinutes, ScheduleCron: v.ScheduleCron, TimeZone: v.TimeZone, DstGap: v.DSTGap, DstOverlap: v.DSTOverlap,
		SpreadPercent: v.SpreadPercent, DeadlineMinutes: v.DeadlineMinutes, Overlap: v.Overlap, OncePer: v.OncePer, CatchUp: v.CatchUp, CatchUpMost: v.CatchUpMost,
		CatchUpMinutes: v.CatchUpMinutes, FreshWithinMinutes: v.FreshWithinMinutes, Calendar: v.Calendar, CalendarUse: v.CalendarUse, Condition: v.Condition, Follows: v.Follows,
	}
}
