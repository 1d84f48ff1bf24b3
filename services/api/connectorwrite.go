package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/cron"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/internal/timezone"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// Settings are what a user says of a connector beside its name and type.
type Settings struct {
	UserID             Field[int32]  `json:"user_id,omitempty" minimum:"1" doc:"Whose it is; you, where you do not say. Only a superadmin gives another."`
	Scope              Field[string] `json:"scope,omitempty" enum:"user,group,org,system" doc:"Who may find its documents; user, where you do not say. system: a job of the system, without an owner, which superadmins add."`
	ScopeID            Field[string] `json:"scope_id,omitempty" maxLength:"128" doc:"The group, for the scope group."`
	Config             Field[Object] `json:"config,omitempty" doc:"What the type needs to know. It replaces the whole configuration; secrets are sealed before they are stored."`
	RefreshFreqMinutes Field[int32]  `json:"refresh_freq_minutes,omitempty" minimum:"0" maximum:"5256000" doc:"Sync again so long after each sync; 0 = once, null = only when triggered, or by schedule_cron."`
	ScheduleCron       Field[string] `json:"schedule_cron,omitempty" maxLength:"200" doc:"Sync at these times: five fields as in crontab."`
	RunAtOnce          Field[bool]   `json:"run_at_once,omitempty" doc:"Of schedule_cron: the first sync is at once, and not at the first of its times."`
	TimeZone           Field[string] `json:"time_zone,omitempty" maxLength:"64" doc:"The zone that schedule_cron is meant in."`
	DSTGap             Field[string] `json:"dst_gap,omitempty" enum:"after,skip,before"`
	DSTOverlap         Field[string] `json:"dst_overlap,omitempty" enum:"first,second,both"`
	SpreadPercent      Field[int32]  `json:"spread_percent,omitempty" minimum:"0" maximum:"100"`
	DeadlineMinutes    Field[int32]  `json:"deadline_minutes,omitempty" minimum:"1" maximum:"525600"`
	Overlap            Field[string] `json:"overlap,omitempty" enum:"skip,queue"`
	OncePer            Field[string] `json:"once_per,omitempty" enum:"day,week,month"`
	CatchUp            Field[string] `json:"catch_up,omitempty" enum:"none,latest,all"`
	CatchUpMost        Field[int32]  `json:"catch_up_most,omitempty" minimum:"1" maximum:"1000"`
	CatchUpMinutes     Field[int32]  `json:"catch_up_minutes,omitempty" minimum:"1" maximum:"525600"`
	FreshWithinMinutes Field[int32]  `json:"fresh_within_minutes,omitempty" minimum:"1" maximum:"525600" doc:"How old what is stored of it may be; null = nobody has said."`
	Calendar           Field[string] `json:"calendar,omitempty" maxLength:"63" doc:"The calendar that the schedule asks: one of /api/v1/calendars."`
	CalendarUse        Field[string] `json:"calendar_use,omitempty" enum:"exclude,only" doc:"Whether slots run on none of its times, or on no other."`
	Condition          Field[string] `json:"condition,omitempty" maxLength:"63" doc:"Of a job: what is asked before a slot runs, one of /api/v1/conditions."`
	MaxRetries         Field[int32]  `json:"max_retries,omitempty" minimum:"1" maximum:"1000"`
	DeletionGuard      Field[bool]   `json:"deletion_guard,omitempty"`

	ConcurrencyKeys Field[[]string]      `json:"concurrency_keys,omitempty" maxItems:"4" doc:"What it shares with others, and bears only so many runs at once. Superadmins alone name them."`
	RunAfter        Field[[]NewUpstream] `json:"run_after,omitempty" maxItems:"1000" doc:"Connectors that it runs after; those that you do not see stay."`
}

// NewConnector is a connector that is to be added.
type NewConnector struct {
	Name string `json:"name" minLength:"1" maxLength:"200"`
	Type string `json:"type" minLength:"1" maxLength:"63" doc:"One of /api/v1/types."`
	Settings
}

// ConnectorPatch is what is to change; what is left out stays.
type ConnectorPatch struct {
	Name Field[string] `json:"name,omitempty" minLength:"1" maxLength:"200"`
	Type Field[string] `json:"type,omitempty" minLength:"1" maxLength:"63"`
	Settings
}

// ownerOf is whose a connector is; 0 is the system.
func ownerOf(userID *int32) int32 {
	if userID == nil {
		return 0
	}
	return *userID
}

// isOf says whether two owners are one.
func isOf(a, b *int32) bool { return ownerOf(a) == ownerOf(b) }

// apply changes what is given in p.
func (s Settings) apply(p *dbgen.AddConnectorParams, who identity.Who) {
	s.Scope.set(&p.Scope, "user")
	switch {
	case s.UserID.Value != nil:
		p.UserID = s.UserID.Value
	case p.Scope == "system":
		p.UserID = nil
	case s.UserID.Given:
		p.UserID = &who.UserID
	}
	s.ScopeID.put(&p.ScopeID)
	if s.Config.Given {
		p.Config = []byte("{}")
		if s.Config.Value != nil {
			p.Config = *s.Config.Value
		}
	}
	s.applySchedule(p)
	s.FreshWithinMinutes.put(&p.FreshWithinMinutes)
	s.Condition.put(&p.Condition)
	if s.ConcurrencyKeys.Given {
		p.ConcurrencyKeys = nil
		if keys := s.ConcurrencyKeys.Value; keys != nil && len(*keys) > 0 {
			p.ConcurrencyKeys = *keys
		}
	}
	s.MaxRetries.set(&p.MaxRetries, 5)
	s.DeletionGuard.set(&p.DeletionGuard, true)
}

// applySchedule changes what is given of when it is due.
func (s Settings) applySchedule(p *dbgen.AddConnectorParams) {
	s.RefreshFreqMinutes.put(&p.RefreshFreqMinutes)
	s.ScheduleCron.put(&p.ScheduleCron)
	switch { // who gives one of them takes the other away
	case s.ScheduleCron.Given && s.ScheduleCron.Value != nil && !s.RefreshFreqMinutes.Given:
		p.RefreshFreqMinutes = nil
	case s.RefreshFreqMinutes.Given && s.RefreshFreqMinutes.Value != nil && !s.ScheduleCron.Given:
		p.ScheduleCron = nil
	}
	s.RunAtOnce.set(&p.RunAtOnce, false)
	s.TimeZone.set(&p.TimeZone, "UTC")
	s.DSTGap.put(&p.DstGap)
	s.DSTOverlap.put(&p.DstOverlap)
	s.SpreadPercent.set(&p.SpreadPercent, 10)
	s.DeadlineMinutes.put(&p.DeadlineMinutes)
	s.Overlap.set(&p.Overlap, "skip")
	s.OncePer.put(&p.OncePer)
	s.CatchUp.set(&p.CatchUp, "latest")
	s.CatchUpMost.set(&p.CatchUpMost, 10)
	s.CatchUpMinutes.put(&p.CatchUpMinutes)
	s.Calendar.put(&p.Calendar)
	s.CalendarUse.set(&p.CalendarUse, slots.Exclude)
}

// check refuses what can never be right.
func (s Settings) check(p dbgen.AddConnectorParams) error {
	if strings.ContainsRune(p.Name, 0) || !utf8.ValidString(p.Name) {
		return problem.Invalid("body.name", "must be text without NUL characters")
	}
	if s.Config.Given {
		object, isObject := objectOf(p.Config)
		if !isObject || strings.Contains(string(p.Config), `\u0000`) || !utf8.Valid(p.Config) {
			return problem.Invalid("body.config", "must be an object, and its texts without NUL characters")
		}
		if err := unmasked(object, "body.config"); err != nil {
			return err
		}
	}
	for field, given := range map[string]*string{"calendar": s.Calendar.Value, "condition": s.Condition.Value} {
		if strings.ContainsRune(text(given), 0) {
			return problem.Invalid("body."+field, "must be a name")
		}
	}
	if s.TimeZone.Given {
		if _, err := timezone.Load(p.TimeZone); err != nil {
			return problem.Invalid("body.time_zone", "must be an IANA name such as Europe/Berlin")
		}
	}
	if s.ScheduleCron.Given && p.ScheduleCron != nil {
		schedule, err := cron.Parse(cron.Spec{Expression: *p.ScheduleCron, Zone: "UTC", ID: p.ID})
		if err != nil {
			return problem.Invalid("body.schedule_cron", err.Error())
		}
		if schedule.Next(time.Now()).IsZero() {
			return problem.Invalid("body.schedule_cron", "never comes due; name a day that exists")
		}
	}
	return nil
}

// objectOf reads a JSON object.
func objectOf(text []byte) (map[string]any, bool) {
	value, err := masks.Decode(text)
	object, isObject := value.(map[string]any)
	return object, err == nil && isObject
}

// unmasked refuses what was copied from our own answers.
func unmasked(object map[string]any, path string) error {
	if at := masks.Masked(object, path); at != "" {
		return problem.Invalid(at, "has "+masks.Mask+", which stands for a secret in our answers; write the secret itself")
	}
	return nil
}

// same says whether a change of a connector changes nothing.
func same(p, old dbgen.AddConnectorParams) bool {
	config, isObject := objectOf(p.Config)
	stored, wasObject := objectOf(old.Config)
	p.Config, old.Config = nil, nil
	return isObject && wasObject && reflect.DeepEqual(config, stored) && reflect.DeepEqual(p, old)
}

// seal replaces the secrets in a configuration by envelopes, before anybody else sees it.
func (a *API) seal(p *dbgen.AddConnectorParams) error {
	fields := secret.FieldsOfType(p.Type)
	if len(fields) == 0 {
		return nil
	}
	sealed, err := a.ring.SealConfig(p.ID, fields, p.Config)
	if err != nil {
		return problem.Invalid("body.config", secret.Error(err).Error())
	}
	p.Config = sealed
	return nil
}

// mayCreate refuses a connector that its viewer may not add, or make of another.
func mayCreate(ctx context.Context, q *dbgen.Queries, p dbgen.AddConnectorParams) error {
	t, err := q.TypeOf(ctx, p.Type)
	if errors.Is(err, pgx.ErrNoRows) {
		return problem.Invalid("body.type", "must be a type that /api/v1/types lists")
	}
	if err != nil {
		return err
	}
	of := identity.Ownership{UserID: ownerOf(p.UserID), Scope: p.Scope, System: t.ConnectorType.Kind == "job"}
	if p.ScopeID != nil {
		of.GroupID = *p.ScopeID
	}
	if !requestOf(ctx).Creates(of) {
		return problem.Forbidden("You may not add this connector: a user adds their own, of scope user; an admin those of their groups; a superadmin the others, and jobs.",
			"Leave user_id and scope away, or ask somebody who may.")
	}
	return nil
}

// unknownName says which name the database does not know; other errors stay.
func unknownName(err error, p dbgen.AddConnectorParams) error {
	switch postgres.Constraint(err) {
	case "connectors_calendar_known":
		return problem.Invalid("body.calendar", notCalendar(text(p.Calendar)))
	case "connectors_condition_known":
		return problem.Invalid("body.condition", fmt.Sprintf("%q is no condition; name one that /api/v1/conditions lists, or null", text(p.Condition)))
	}
	return err
}

func notCalendar(name string) string {
	return fmt.Sprintf("%q is no calendar; name one that /api/v1/calendars lists, or null", name)
}
