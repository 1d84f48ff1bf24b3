package semantic

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// nothingChanged is the reason that moves give a skipped run without one of its own.
const nothingChanged = "nothing had changed"

// eventOf is the event of a row. Its id is the same each time: of a verdict the run's, of a status what nobody gives twice, also where Postgres was
// put back to an earlier state.
func eventOf(row dbgen.UnpublishedEventsRow) events.Event {
	e := events.Event{Time: *row.At}
	if !*row.IsVerdict {
		e.ID = fmt.Sprintf("%d.%d.%d", *row.ConnectorID, *row.No, row.At.UnixMicro())
		e.Connector = &publicpb.ConnectorEvent{
			ConnectorId: *row.ConnectorID, Type: *row.Type, Was: statusOf(*row.Was), Status: statusOf(*row.Status), DueReason: *row.DueReason,
			MovedAt: timestamppb.New(*row.At), Freshness: *row.Reason, FreshUntil: stamp(row.Slot), // see unpublished_events
		}
		if row.RunID != nil {
			e.Connector.RunId = row.RunID.String()
		}
		return e
	}
	e.ID = row.RunID.String()
	e.Run = &publicpb.RunEvent{
		RunId: e.ID, ConnectorId: *row.ConnectorID, Type: *row.Type, Verdict: *row.Verdict, Trigger: *row.Trigger,
		Reason: events.ReasonCode(*row.Reason, func(reason string) bool {
			_, known := lifecycle.Reasons[lifecycle.Reason(reason)]
			return known || reason == nothingChanged
		}),
		Slot: stamp(row.Slot), SlotLast: stamp(row.SlotLast), Slots: *row.Slots, DueAt: stamp(row.DueAt), StartedAt: stamp(row.StartedAt),
		CompletedAt: timestamppb.New(*row.At), DocumentsProcessed: *row.DocumentsProcessed, DocumentsFailed: *row.DocumentsFailed,
		DocumentsDeleted: *row.DocumentsDeleted, DocumentsUnchanged: *row.DocumentsUnchanged, ChunksStored: *row.ChunksStored,
	}
	return e
}

func statusOf(name string) publicpb.ConnectorStatus {
	return publicpb.ConnectorStatus(publicpb.ConnectorStatus_value["CONNECTOR_STATUS_"+name])
}

func stamp(at *time.Time) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return timestamppb.New(*at)
}
