package api

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/freshness"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

// Connector is what is shown of one. Secrets in its configuration are masked.
type Connector struct {
	ID                 int32               `json:"id"`
	Name               string              `json:"name"`
	Type               string              `json:"type"`
	UserID             *int32              `json:"user_id" doc:"Whose it is; null where the scope is system."`
	Scope              string              `json:"scope" enum:"user,group,org,system" doc:"Who may find its documents."`
	ScopeID            *string             `json:"scope_id" doc:"The group, for the scope group."`
	MayChange          bool                `json:"may_change" doc:"Whether you may change, trigger, disable and delete it."`
	Config             Object              `json:"config" doc:"What the type needs to know. Secrets are REDACTED. Empty for a token without the scope read."`
	RefreshFreqMinutes *int32              `json:"refresh_freq_minutes"`
	ScheduleCron       *string             `json:"schedule_cron"`
	RunAtOnce          bool                `json:"run_at_once"`
	TimeZone           string              `json:"time_zone"`
	DSTGap             *string             `json:"dst_gap"`
	DSTOverlap         *string             `json:"dst_overlap"`
	SpreadPercent      int32               `json:"spread_percent"`
	DeadlineMinutes    *int32              `json:"deadline_minutes"`
	Overlap            string              `json:"overlap"`
	OncePer            *string             `json:"once_per"`
	CatchUp            string              `json:"catch_up"`
	CatchUpMost        int32               `json:"catch_up_most"`
	CatchUpMinutes     *int32              `json:"catch_up_minutes"`
	FreshWithinMinutes *int32              `json:"fresh_within_minutes" doc:"How old what is stored of it may be."`
	Freshness          freshness.Freshness `json:"freshness" doc:"Whether what is stored of it is as fresh as it should be."`
	Calendar           *string             `json:"calendar" doc:"The calendar that its schedule asks."`
	CalendarUse        string              `json:"calendar_use" enum:"exclude,only"`
	Condition          *string             `json:"condition" doc:"What is asked before a slot runs."`
	ConcurrencyKeys    []string            `json:"concurrency_keys" nullable:"true" doc:"Its own; its type may have more."`
	WaitsForKey        *string             `json:"waits_for_key" doc:"The key that is full, where it waits for one."`
	Follows            bool                `json:"follows" doc:"Whether it runs after others."`
	RunAfter           []Upstream          `json:"run_after" nullable:"true" doc:"Connectors that it runs after, those that you see; null in lists."`
	MaxRetries         int32               `json:"max_retries"`
	DeletionGuard      bool                `json:"deletion_guard"`
	Status             string              `json:"status" enum:"PENDING,SYNCING,ACTIVE,ERROR,DISABLED"`
	StatusMessage      *string             `json:"status_message"`
	FailureCount       int32               `json:"failure_count"`
	LastSyncAt         *time.Time          `json:"last_sync_at"`
	NextSyncAt         *time.Time          `json:"next_sync_at"`
	NeedsPlan          bool                `json:"needs_plan" doc:"When it is due next is being worked out."`
	DueReason          *string             `json:"due_reason"`
	PutOffSince        *time.Time          `json:"put_off_since"`
	TriggerRequestedAt *time.Time          `json:"trigger_requested_at"`
	DeletionsAllowedAt *time.Time          `json:"deletions_allowed_at"`
	NextParameters     Object              `json:"next_parameters" nullable:"true" doc:"What a run that was asked for is to have over the configuration; null where there is none."`
	ParametersDueAt    *time.Time          `json:"parameters_due_at" doc:"When the run with next_parameters is due; null where there is none."`
	RunID              *uuid.UUID          `json:"run_id" nullable:"true" doc:"The open run."`
	Documents          *int64              `json:"documents" doc:"How many documents search can find; null where counts were not asked for."`
	DocumentsFailed    *int64              `json:"documents_failed" doc:"How many documents are failed; null where counts were not asked for, and where it has more than is left of the 100,000 documents that are read for a page."`
	ConfigVersion      int64               `json:"config_version"`
	CreatedAt          time.Time           `json:"created_at"`
	CreatedBy          *string             `json:"created_by"`
	UpdatedAt          time.Time           `json:"updated_at"`
	UpdatedBy          *string             `json:"updated_by"`
}

func viewConnector(c dbgen.ApiConnector) Connector {
	v := Connector{
		ID: c.ID, Name: c.Name, Type: c.Type, UserID: c.UserID, Scope: c.Scope, ScopeID: c.ScopeID, MayChange: c.MayChange,
		Config: Object(masks.Object(c.Config)), RefreshFreqMinutes: c.RefreshFreqMinutes, ScheduleCron: c.ScheduleCron, RunAtOnce: c.RunAtOnce, TimeZone: c.TimeZone,
		DSTGap: c.DstGap, DSTOverlap: c.DstOverlap, SpreadPercent: c.SpreadPercent, DeadlineMinutes: c.DeadlineMinutes, Overlap: c.Overlap,
		OncePer: c.OncePer, CatchUp: c.CatchUp, CatchUpMost: c.CatchUpMost, CatchUpMinutes: c.CatchUpMinutes,
		FreshWithinMinutes: c.FreshWithinMinutes, Freshness: freshness.Of(freshness.Connector{
			FreshWithinMinutes: c.FreshWithinMinutes, LastSyncAt: c.LastSyncAt, SyncedVersion: c.SyncedVersion, ConfigVersion: c.ConfigVersion,
		}, c.SeenAt), Calendar: c.Calendar, CalendarUse: c.CalendarUse, Condition: c.Condition, ConcurrencyKeys: c.ConcurrencyKeys, WaitsForKey: c.WaitsForKey, MaxRetries: c.MaxRetries,
		DeletionGuard: c.DeletionGuard, Status: c.Status, StatusMessage: shownText(c.StatusMessage), FailureCount: c.FailureCount, LastSyncAt: utc(c.LastSyncAt),
		NextSyncAt: utc(c.NextSyncAt), DueReason: c.DueReason, PutOffSince: utc(c.PutOffSince), TriggerRequestedAt: utc(c.TriggerRequestedAt),
		DeletionsAllowedAt: utc(c.DeletionsAllowedAt), RunID: c.RunID, ConfigVersion: c.ConfigVersion, CreatedAt: c.CreatedAt.UTC(), CreatedBy: c.CreatedBy,
		UpdatedAt: c.UpdatedAt.UTC(), UpdatedBy: c.UpdatedBy,
	}
	v.Follows, v.NeedsPlan, v.ParametersDueAt = c.Follows, c.NeedsPlan, utc(c.ParametersDueAt)
	v.NextParameters = shownParameters(c.NextParameters)
	return v
}

// shownParameters are those of a job's run: numbers are shown, for they count tokens.
func shownParameters(stored []byte) Object {
	if stored == nil {
		return nil
	}
	return Object(masks.WithoutSecrets(stored, false))
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	moment := t.UTC()
	return &moment
}

// etag names the version of what users write of a connector.
func etag(id int32, updatedAt time.Time) string {
	return fmt.Sprintf(`"%d-%d"`, id, updatedAt.UnixMicro())
}
