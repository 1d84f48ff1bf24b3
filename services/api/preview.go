package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/blackouts"
	"github.com/echomind/sync/internal/cron"
	"github.com/echomind/sync/internal/foresee"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// mostSlots is how many lines a preview has at most.
const mostSlots = 500

// PreviewSchedule is which slots to show.
type PreviewSchedule struct {
	ByID
	Hours        int64  `query:"hours" minimum:"1" maximum:"744" default:"168" format:"int32" doc:"Those of so many hours."`
	Past         bool   `query:"past" doc:"Those of the time that is over, as if nothing had been done before it; else those to come, from where the connector stands."`
	TakesMinutes int64  `query:"takes_minutes" minimum:"0" maximum:"10080" format:"int32" doc:"How long each sync is to take."`
	Set          string `query:"set" maxLength:"2000" doc:"A JSON object of what PATCH would change of the schedule and its policies: what that would do is shown beside it."`
}

// Preview is what a schedule does, and what another would do.
type Preview struct {
	Body struct {
		ConnectorID int32             `json:"connector_id"`
		From        time.Time         `json:"from"`
		Until       time.Time         `json:"until"`
		Now         foresee.Schedule  `json:"now" doc:"As it is."`
		Set         *foresee.Schedule `json:"set" doc:"As it would be; null where nothing else was asked for."`
	}
}

// ScheduleSettings are those of Settings that a schedule is made of.
type ScheduleSettings struct {
	RefreshFreqMinutes Field[int32]  `json:"refresh_freq_minutes,omitempty" minimum:"0" maximum:"5256000"`
	ScheduleCron       Field[string] `json:"schedule_cron,omitempty" maxLength:"200"`
	TimeZone           Field[string] `json:"time_zone,omitempty" maxLength:"64"`
	DSTGap             Field[string] `json:"dst_gap,omitempty" enum:"after,skip,before"`
	DSTOverlap         Field[string] `json:"dst_overlap,omitempty" enum:"first,second,both"`
	SpreadPercent      Field[int32]  `json:"spread_percent,omitempty" minimum:"0" maximum:"100"`
	DeadlineMinutes    Field[int32]  `json:"deadline_minutes,omitempty" minimum:"1" maximum:"525600"`
	Overlap            Field[string] `json:"overlap,omitempty" enum:"skip,queue"`
	OncePer            Field[string] `json:"once_per,omitempty" enum:"day,week,month"`
	CatchUp            Field[string] `json:"catch_up,omitempty" enum:"none,latest,all"`
	CatchUpMost        Field[int32]  `json:"catch_up_most,omitempty" minimum:"1" maximum:"1000"`
	CatchUpMinutes     Field[int32]  `json:"catch_up_minutes,omitempty" minimum:"1" maximum:"525600"`
	Calendar           Field[string] `json:"calendar,omitempty" maxLength:"63"`
	CalendarUse        Field[string] `json:"calendar_use,omitempty" enum:"exclude,only"`
}

func (a *API) previewSchedule(ctx context.Context, in *PreviewSchedule) (*Preview, error) {
	set, err := readSet(in.Set)
	if err != nil {
		return nil, err
	}
	out := &Preview{}
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		c, err := q.GetConnector(ctx, in.number())
		if err != nil {
			return errors.Join(isSeen(ctx, q, in.number()), err)
		}
		now, err := q.Now(ctx)
		if err != nil {
			return err
		}
		look := foresee.Look{
			From: now, Until: now.Add(time.Duration(in.Hours) * time.Hour), Past: in.Past, Takes: time.Duration(in.TakesMinutes) * time.Minute, Most: mostSlots,
			IntervalSlot: func(ctx context.Context, c foresee.Connector, base time.Time) (time.Time, error) {
				return q.IntervalSlot(ctx, dbgen.IntervalSlotParams{ID: c.ID, Base: base, Minutes: *c.RefreshFreqMinutes, Spread: c.SpreadPercent})
			},
			CalendarOf: func(ctx context.Context, name string) (string, []byte, error) {
				found, err := q.Calendar(ctx, name)
				if errors.Is(err, pgx.ErrNoRows) { // a connector's own is there: the table refers to it
					err = problem.Invalid("query.set.calendar", notCalendar(name))
				}
				return found.TimeZone, found.Entries, err
			},
			BlackoutsOf: func(ctx context.Context) ([]blackouts.Row, error) {
				found, err := q.BlackoutWindows(ctx)
				all := make([]blackouts.Row, len(found))
				for i, r := range found {
					all[i] = blackouts.Row(r)
				}
				return all, err
			},
		}
		if in.Past {
			look.From, look.Until = now.Add(-time.Duration(in.Hours)*time.Hour), now
		}
		out.Body.ConnectorID, out.Body.From, out.Body.Until, out.Body.Set = c.ID, look.From.UTC(), look.Until.UTC(), nil
		of := foreseen(c)
		after, err := q.RunAfter(ctx, c.ID)
		if err != nil {
			return err
		}
		for _, u := range after {
			of.After = append(of.After, u.UpstreamID)
		}
		if out.Body.Now, err = look.Of(ctx, of, called(of), false); err != nil || set == nil {
			return refusedSchedule(err)
		}
		changed, err := set.apply(of)
		if err != nil {
			return err
		}
		if set.Calendar.Value != nil { // a schedule that has no slots asks none
			if _, _, err := look.CalendarOf(ctx, *set.Calendar.Value); err != nil {
				return err
			}
		}
		other, err := look.Of(ctx, changed, called(changed), true)
		out.Body.Set = &other
		return refusedSchedule(err)
	})
	return out, err
}

// refusedSchedule is of a schedule that can be read no more, under another time zone database.
func refusedSchedule(err error) error {
	if errors.Is(err, cron.ErrSchedule) || errors.Is(err, foresee.ErrCalendar) {
		return problem.Conflict(err.Error(), "Correct the schedule.")
	}
	return err
}

func foreseen(c dbgen.ApiConnector) foresee.Connector {
	return foresee.Connector{
		Columns: slots.Columns{
			ID: c.ID, Cron: c.ScheduleCron, Zone: c.TimeZone, DSTGap: c.DstGap, DSTOverlap: c.DstOverlap, Deadline: c.DeadlineMinutes, Overlap: c.Overlap,
			OncePer: c.OncePer, CatchUp: c.CatchUp, Most: c.CatchUpMost, Window: c.CatchUpMinutes, Through: c.PlannedThrough, ClaimedAt: c.ClaimedAt,
			OverAt: c.OverAt, ClaimedFor: c.ClaimedFor, SyncedFor: c.SyncedFor,
		},
		RefreshFreqMinutes: c.RefreshFreqMinutes, SpreadPercent: c.SpreadPercent, Condition: c.Condition, Status: c.Status, DueReason: c.DueReason,
		NeedsPlan: c.NeedsPlan, NextSyncAt: c.NextSyncAt, SlotAt: c.SlotAt, LastSyncAt: c.LastSyncAt, HasRun: c.RunID != nil, RunAtOnce: c.RunAtOnce,
		Calendar: c.Calendar, CalendarUse: c.CalendarUse, KeptPlan: c.KeptPlan, Type: c.Type, UserID: c.UserID,
	}
}

// called is a schedule in a few words.
func called(c foresee.Connector) string {
	switch {
	case c.Cron != nil:
		return *c.Cron + " " + c.Zone
	case c.RefreshFreqMinutes == nil:
		return "manual"
	}
	return fmt.Sprintf("every %d minutes", *c.RefreshFreqMinutes)
}

var scheduleSchema = func() *huma.Schema {
	registry := huma.NewMapRegistry("#/", huma.DefaultSchemaNamer)
	schema := registry.Schema(reflect.TypeFor[ScheduleSettings](), false, "")
	schema.PrecomputeMessages()
	return schema
}()

// readSet reads the parameter set; nil: it was not given.
func readSet(text string) (*ScheduleSettings, error) {
	if text == "" {
		return nil, nil
	}
	var object map[string]any
	var set ScheduleSettings
	if json.Unmarshal([]byte(text), &object) != nil || object == nil {
		return nil, problem.Invalid("query.set", "must be a JSON object")
	}
	path, result := huma.NewPathBuffer([]byte("query.set"), len("query.set")), &huma.ValidateResult{}
	huma.Validate(huma.NewMapRegistry("#/", huma.DefaultSchemaNamer), scheduleSchema, path, huma.ModeWriteToServer, object, result)
	if len(result.Errors) > 0 {
		return nil, problem.FromHuma(422, "The parameter set is not valid.", result.Errors...)
	}
	if json.Unmarshal([]byte(text), &set) != nil {
		return nil, problem.Invalid("query.set", "must be an object of what PATCH takes of a schedule")
	}
	return &set, nil
}

// apply is a connector with another schedule, which is checked as PATCH checks it.
func (s ScheduleSettings) apply(c foresee.Connector) (foresee.Connector, error) {
	all := Settings{
		RefreshFreqMinutes: s.RefreshFreqMinutes, ScheduleCron: s.ScheduleCron, TimeZone: s.TimeZone, DSTGap: s.DSTGap, DSTOverlap: s.DSTOverlap,
		SpreadPercent: s.SpreadPercent, DeadlineMinutes: s.DeadlineMinutes, Overlap: s.Overlap, OncePer: s.OncePer, CatchUp: s.CatchUp,
		CatchUpMost: s.CatchUpMost, CatchUpMinutes: s.CatchUpMinutes, Calendar: s.Calendar, CalendarUse: s.CalendarUse,
	}
	p := dbgen.AddConnectorParams{
		ID: c.ID, RefreshFreqMinutes: c.RefreshFreqMinutes, ScheduleCron: c.Cron, TimeZone: c.Zone, DstGap: c.DSTGap, DstOverlap: c.DSTOverlap, SpreadPercent: c.SpreadPercent,
		DeadlineMinutes: c.Deadline, Overlap: c.Overlap, OncePer: c.OncePer, CatchUp: c.CatchUp, CatchUpMost: c.Most, CatchUpMinutes: c.Window, Calendar: c.Calendar, CalendarUse: c.CalendarUse,
	}
	if s.RefreshFreqMinutes.Value != nil && s.ScheduleCron.Value != nil {
		return c, problem.Invalid("query.set", "give refresh_freq_minutes or schedule_cron")
	}
	all.applySchedule(&p)
	if err := all.check(p); err != nil {
		if found := problem.Of(err); len(found.Errors) == 1 {
			return c, problem.Invalid(strings.Replace(found.Errors[0].Field, "body", "query.set", 1), found.Errors[0].Detail)
		}
		return c, err
	}
	c.RefreshFreqMinutes, c.Cron, c.Zone, c.DSTGap, c.DSTOverlap = p.RefreshFreqMinutes, p.ScheduleCron, p.TimeZone, p.DstGap, p.DstOverlap
	c.SpreadPercent, c.Deadline, c.Overlap, c.OncePer = p.SpreadPercent, p.DeadlineMinutes, p.Overlap, p.OncePer
	c.CatchUp, c.Most, c.Window = p.CatchUp, p.CatchUpMost, p.CatchUpMinutes
	c.Calendar, c.CalendarUse = p.Calendar, p.CalendarUse
	return c, nil
}
