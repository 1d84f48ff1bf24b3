package api

import (
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

// SyncRun is what is shown of one time that a connector was due.
type SyncRun struct {
	ID                 uuid.UUID  `json:"id"`
	ConnectorID        int32      `json:"connector_id"`
	ConnectorName      *string    `json:"connector_name" doc:"What its connector is called now; null where it is deleted."`
	Type               string     `json:"type"`
	Trigger            string     `json:"trigger" doc:"Why it was due."`
	Status             string     `json:"status" enum:"running,completed,skipped,failed,superseded,missed" doc:"running, or the verdict."`
	Reason             *string    `json:"reason"`
	ErrorMessage       *string    `json:"error_message"`
	Slot               *time.Time `json:"slot"`
	SlotLast           *time.Time `json:"slot_last"`
	MissedCount        *int32     `json:"missed_count"`
	DueAt              time.Time  `json:"due_at"`
	StartedAt          time.Time  `json:"started_at"`
	PickedUpAt         *time.Time `json:"picked_up_at"`
	FetchedAt          *time.Time `json:"fetched_at"`
	CompletedAt        *time.Time `json:"completed_at"`
	Dispatches         int32      `json:"dispatches"`
	TriggerRequestedAt *time.Time `json:"trigger_requested_at"`
	DeletionsAllowedAt *time.Time `json:"deletions_allowed_at"`
	WaitsUntil         *time.Time `json:"waits_until"`
	WaitMessage        *string    `json:"wait_message"`
	Parameters         Object     `json:"parameters" nullable:"true"`
	Result             Object     `json:"result" nullable:"true" doc:"Null, as parameters, for a token without the scope read."`
	Warnings           []string   `json:"warnings" doc:"What its user should know, such as what it left out; empty for who may not change the connector, or has no scope read."`
	ProgressDone       *int64     `json:"progress_done"`
	ProgressTotal      *int64     `json:"progress_total"`
	ProgressText       *string    `json:"progress_text"`
	Total              *int64     `json:"total" doc:"How many messages it has sent; null while that is not known."`
	Stored             int64      `json:"stored"`
	CheckpointNo       int64      `json:"checkpoint_no" doc:"Up to which of its messages the next run need not fetch again; 0 where it passed no checkpoint."`
	DocumentsProcessed int64      `json:"documents_processed"`
	DocumentsFailed    int64      `json:"documents_failed"`
	DocumentsDeleted   int64      `json:"documents_deleted"`
	DocumentsUnchanged int64      `json:"documents_unchanged"`
	ChunksStored       int64      `json:"chunks_stored"`
	ListingWhole       *bool      `json:"listing_whole"`
	ConfigVersion      int64      `json:"config_version"`
}

// shownText is a text of a worker's, which may be of another team, without what may be a secret.
func shownText(text *string) *string {
	if text == nil {
		return nil
	}
	shown := secret.Text(*text)
	return &shown
}

// shown is a name or an address without what may be a secret in it.
func shown(text string) string { return masks.URL(text) }

func viewRun(r dbgen.ApiRun) SyncRun {
	warnings := make([]string, len(r.Warnings))
	for i, text := range r.Warnings {
		warnings[i] = secret.Text(text)
	}
	return SyncRun{
		ID: r.ID, ConnectorID: r.ConnectorID, Type: r.Type, Trigger: r.Trigger, Status: r.Status, Reason: r.Reason, ErrorMessage: shownText(r.ErrorMessage),
		Slot: utc(r.Slot), SlotLast: utc(r.SlotLast), MissedCount: r.MissedCount, DueAt: r.DueAt.UTC(), StartedAt: r.StartedAt.UTC(), PickedUpAt: utc(r.PickedUpAt),
		FetchedAt: utc(r.FetchedAt), CompletedAt: utc(r.CompletedAt), Dispatches: r.Dispatches, TriggerRequestedAt: utc(r.TriggerRequestedAt),
		DeletionsAllowedAt: utc(r.DeletionsAllowedAt), WaitsUntil: utc(r.WaitsUntil), WaitMessage: shownText(r.WaitMessage), Parameters: shownParameters(r.Parameters),
		Result: shownParameters(r.Result), Warnings: warnings, ProgressDone: r.ProgressDone, ProgressTotal: r.ProgressTotal, ProgressText: shownText(r.ProgressText),
		Total: r.Total, Stored: r.Stored, CheckpointNo: r.CheckpointNo, DocumentsProcessed: r.DocumentsProcessed, DocumentsFailed: r.DocumentsFailed, DocumentsDeleted: r.DocumentsDeleted,
		DocumentsUnchanged: r.DocumentsUnchanged, ChunksStored: r.ChunksStored, ListingWhole: r.ListingWhole, ConfigVersion: r.ConfigVersion,
	}
}
