package console

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/freshness"
	"github.com/echomind/sync/internal/masks"
)

func connectors(f *finder) *cobra.Command {
	return group("connectors", "Add, look at, change and trigger connectors",
		"A connector is one source of one user. These commands add connectors, show and change them.",
		add(f), list(f), get(f), update(f), enable(f), disable(f), remove(f), trigger(f))
}

// connector is what programs are shown of one.
type connector struct {
	ID                 int32           `json:"id"`
	Name               string          `json:"name"`
	Type               string          `json:"type"`
	UserID             *int32          `json:"user_id"`
	Scope              string          `json:"scope"`
	ScopeID            *string         `json:"scope_id"`
	Config             json.RawMessage `json:"config"`
	RefreshFreqMinutes *int32          `json:"refresh_freq_minutes"`
	ScheduleCron       *string         `json:"schedule_cron"`
	RunAtOnce          bool            `json:"run_at_once"`
	TimeZone           string          `json:"time_zone"`
	DSTGap             *string         `json:"dst_gap"`
	DSTOverlap         *string         `json:"dst_overlap"`
	SpreadPercent      int32           `json:"spread_percent"`
	DeadlineMinutes    *int32          `json:"deadline_minutes"`
	Overlap            string          `json:"overlap"`
	OncePer            *string         `json:"once_per"`
	CatchUp            string          `json:"catch_up"`
	CatchUpMost        int32           `json:"catch_up_most"`
	CatchUpMinutes     *int32          `json:"catch_up_minutes"`
	FreshWithinMinutes *int32          `json:"fresh_within_minutes"`
	// Freshness is whether what is stored is as fresh as it should be; null where that was not asked.
	Freshness   *freshness.Freshness `json:"freshness"`
	Calendar    *string              `json:"calendar"`
	CalendarUse string               `json:"calendar_use"`
	Condition   *string              `json:"condition"`
	// Follows: it runs after others.
	Follows bool `json:"follows"`
	// RunAfter are the connectors that it runs after. They are read where one connector is shown alone; null elsewhere.
	RunAfter []upstream `json:"run_after"`
	// ConcurrencyKeys are its own; its type may have more.
	ConcurrencyKeys []string `json:"concurrency_keys"`
	// WaitsForKey is the concurrency key that is full; null where none is.
	WaitsForKey   *string `json:"waits_for_key"`
	MaxRetries    int32   `json:"max_retries"`
	DeletionGuard bool    `json:"deletion_guard"`
	Status        string  `json:"status"`
	StatusMessage *string `json:"status_message"`
	FailureCount  int32   `json:"failure_count"`
	// DocsAnalyzed is how many documents its runs have stored; null through a server, which does not show it. Nor does it show State.
	DocsAnalyzed *int64 `json:"docs_analyzed"`
	// Documents is how many search can find; DocumentsFailed how many are failed now. Both are null where they were not counted.
	Documents       *int64          `json:"documents"`
	DocumentsFailed *int64          `json:"documents_failed"`
	State           json.RawMessage `json:"state"`
	LastSyncAt      *time.Time      `json:"last_sync_at"`
	NextSyncAt      *time.Time      `json:"next_sync_at"`
	// NeedsPlan: when it is due next is being worked out.
	NeedsPlan bool    `json:"needs_plan"`
	DueReason *string `json:"due_reason"`
	// PutOffSince is since when its source puts it off, and it comes no further; null where it does not.
	PutOffSince        *time.Time `json:"put_off_since"`
	TriggerRequestedAt *time.Time `json:"trigger_requested_at"`
	// DeletionsAllowedAt is when the next run was allowed to delete many documents at once; null where it is not.
	DeletionsAllowedAt *time.Time `json:"deletions_allowed_at"`
	// NextParameters are what a run that was asked for is to have over the configuration; null where there is none.
	NextParameters json.RawMessage `json:"next_parameters"`
	// ParametersDueAt is when that run is due.
	ParametersDueAt *time.Time `json:"parameters_due_at"`
	RunID           *uuid.UUID `json:"run_id"`
	ConfigVersion   int64      `json:"config_version"`
	CreatedAt       time.Time  `json:"created_at"`
	CreatedBy       *string    `json:"created_by"`
	UpdatedAt       time.Time  `json:"updated_at"`
	UpdatedBy       *string    `json:"updated_by"`
}

func view(c dbgen.Connector) connector {
	return connector{
		ID: c.ID, Name: c.Name, Type: c.Type, UserID: c.UserID, Scope: c.Scope, ScopeID: c.ScopeID,
		Config: masks.Object(c.Config), RefreshFreqMinutes: c.RefreshFreqMinutes, ScheduleCron: c.ScheduleCron, RunAtOnce: c.RunAtOnce,
		TimeZone: c.TimeZone, DSTGap: c.DstGap, DSTOverlap: c.DstOverlap, SpreadPercent: c.SpreadPercent, DeadlineMinutes: c.DeadlineMinutes,
		Overlap: c.Overlap, OncePer: c.OncePer, CatchUp: c.CatchUp, CatchUpMost: c.CatchUpMost, CatchUpMinutes: c.CatchUpMinutes, FreshWithinMinutes: c.FreshWithinMinutes, Calendar: c.Calendar, CalendarUse: c.CalendarUse, Condition: c.Condition, ConcurrencyKeys: c.ConcurrencyKeys, WaitsForKey: c.WaitsForKey, MaxRetries: c.MaxRetries, DeletionGuard: c.DeletionGuard, Status: c.Status, StatusMessage: c.StatusMessage,
		FailureCount: c.FailureCount, DocsAnalyzed: &c.DocsAnalyzed, Follows: c.Follows, NeedsPlan: c.NeedsPlan, State: masks.Object(c.State),
		LastSyncAt: utc(c.LastSyncAt), NextSyncAt: utc(c.NextSyncAt), DueReason: c.DueReason, PutOffSince: utc(c.PutOffSince),
		TriggerRequestedAt: utc(c.TriggerRequestedAt), DeletionsAllowedAt: utc(c.DeletionsAllowedAt), NextParameters: parametersOf(c.NextParameters), ParametersDueAt: utc(c.ParametersDueAt), RunID: c.RunID, ConfigVersion: c.ConfigVersion,
		CreatedAt: c.CreatedAt.UTC(), CreatedBy: c.CreatedBy, UpdatedAt: c.UpdatedAt.UTC(), UpdatedBy: c.UpdatedBy,
	}
}

// owner is whose a connector is, in a table.
func owner(userID *int32) string {
	if userID == nil {
		return "system"
	}
	return strconv.Itoa(int(*userID))
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	moment := t.UTC()
	return &moment
}

// refresh says when a connector runs by itself.
func refresh(c connector) string {
	switch {
	case c.ScheduleCron != nil:
		return fmt.Sprintf("%s %s", *c.ScheduleCron, c.TimeZone) + policy("gap", c.DSTGap) + policy("overlap", c.DSTOverlap) + policies(c)
	case c.RefreshFreqMinutes == nil && c.Follows:
		return "after others"
	case c.RefreshFreqMinutes == nil:
		return "manual"
	}
	return every(*c.RefreshFreqMinutes) + policies(c)
}

// policy names what the user chose for the changes of the clocks.
func policy(of string, chosen *string) string {
	if chosen == nil {
		return ""
	}
	return ", " + of + " " + *chosen
}

func scope(c connector) string {
	if c.ScopeID == nil {
		return c.Scope
	}
	return c.Scope + " " + *c.ScopeID
}

// howFresh is how fresh a connector is; a server may say nothing of it.
func howFresh(c connector) string {
	if c.Freshness == nil {
		return "-"
	}
	return fmt.Sprintf("%s: %s", c.Freshness.State, c.Freshness.How)
}

// details writes one connector for people.
func details(w io.Writer, c connector, waiting waitingRuns, now time.Time) error {
	rows := [][]string{
		{"name", c.Name},
		{"type", c.Type},
		{"user", owner(c.UserID)},
		{"scope", scope(c)},
		{"config", string(c.Config)},
		{"refresh", refresh(c)},
		{"status", c.Status},
		{"message", orDash(waiting.message(c, now))},
		{"failures in a row", fmt.Sprintf("%d of %d", c.FailureCount, c.MaxRetries)},
		{"deletion guard", deletionGuard(c)},
		{"documents", numberOf(c.Documents)},
		{"failed documents", numberOf(c.DocumentsFailed)},
		{"freshness", howFresh(c)},
		{"last sync", clock.Optional(c.LastSyncAt, now)},
		{"next sync", nextSync(c, now)},
		{"created", clock.At(c.CreatedAt, now) + " by " + orDash(c.CreatedBy)},
		{"updated", clock.At(c.UpdatedAt, now) + " by " + orDash(c.UpdatedBy)},
	}
	if len(c.RunAfter) > 0 {
		rows = append(rows, []string{"runs after", saidAfter(c.RunAfter)})
	}
	if len(c.ConcurrencyKeys) > 0 {
		rows = append(rows, []string{"concurrency keys", strings.Join(c.ConcurrencyKeys, ", ")})
	}
	if c.WaitsForKey != nil {
		rows = append(rows, []string{"waits for key", *c.WaitsForKey})
	}
	if c.NextParameters != nil {
		rows = append(rows, []string{"asked for with", string(c.NextParameters)})
	}
	return table(w, []string{"id", strconv.Itoa(int(c.ID))}, rows)
}

// at is the view with how fresh the connector is at a moment.
func (v connector) at(c dbgen.Connector, now time.Time) connector {
	v.Freshness = new(freshness.Of(freshness.Connector{
		FreshWithinMinutes: c.FreshWithinMinutes, LastSyncAt: c.LastSyncAt, SyncedVersion: c.SyncedVersion, ConfigVersion: c.ConfigVersion,
	}, now))
	return v
}

func deletionGuard(c connector) string {
	switch {
	case !c.DeletionGuard:
		return guardOff
	case c.DeletionsAllowedAt != nil:
		return guardOn + ", but the next sync may delete many documents"
	}
	return guardOn
}

func nextSync(c connector, now time.Time) string {
	switch {
	case c.RunID != nil:
		return "in flight"
	case c.WaitsForKey != nil:
		return "waits for key"
	case c.NextSyncAt == nil && c.NeedsPlan:
		return "being planned"
	case c.NextSyncAt == nil:
		return "-"
	case !c.NextSyncAt.After(now):
		return "due"
	}
	return clock.At(*c.NextSyncAt, now)
}
