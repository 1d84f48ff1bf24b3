package page

import (
	"fmt"
	"strings"
	"time"
)

// run is what the page reads of a run.
type run struct {
	ID                 string     `json:"id"`
	ConnectorID        int32      `json:"connector_id"`
	Type               string     `json:"type"`
	Trigger            string     `json:"trigger"`
	Status             string     `json:"status"`
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
	DocumentsProcessed int64      `json:"documents_processed"`
	DocumentsFailed    int64      `json:"documents_failed"`
	DocumentsDeleted   int64      `json:"documents_deleted"`
	DocumentsUnchanged int64      `json:"documents_unchanged"`
	ProgressDone       *int64     `json:"progress_done"`
	ProgressTotal      *int64     `json:"progress_total"`
	ProgressText       *string    `json:"progress_text"`
	Total              *int64     `json:"total"`
	Stored             int64      `json:"stored"`
}

const (
	stripCells = 30
	cellStep   = 9
)

// strip are the latest runs of a connector, the oldest first: one cell each; a range of missed slots is one.
type strip struct {
	Words string
	Cells []cell
	Width int
	// Room is how much width is left for runs to come.
	Room int
}

type cell struct {
	X     int
	Class string
	Title string
}

// verdicts are in the order in which they are counted.
var verdicts = []string{"running", "completed", "skipped", "failed", "superseded", "missed"}

// stripOf draws runs; the latest comes first.
func stripOf(runs []run, shown func(*time.Time) *moment) strip {
	s := strip{Width: stripCells*cellStep - 1}
	count := map[string]int{}
	for i := range stripCells {
		at := stripCells - 1 - i
		if i >= len(runs) {
			s.Room = (at+1)*cellStep - 2
			break
		}
		r := runs[i]
		count[r.Status]++
		s.Cells = append(s.Cells, cell{X: at * cellStep, Class: r.Status, Title: titleOf(r, shown)})
	}
	var words []string
	for _, verdict := range verdicts {
		if n := count[verdict]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	switch {
	case len(runs) == 0:
		s.Words = "It has no runs yet"
	default:
		s.Words = fmt.Sprintf("The latest %d: %s", len(runs), strings.Join(words, ", "))
	}
	return s
}

// titleOf is a run in a line.
func titleOf(r run, shown func(*time.Time) *moment) string {
	at := &r.DueAt
	if r.Slot != nil {
		at = r.Slot
	}
	line := r.Status
	if r.MissedCount != nil && *r.MissedCount > 1 {
		line = fmt.Sprintf("%d slots missed", *r.MissedCount)
	}
	line += ": " + shown(at).At
	if r.SlotLast != nil && r.Slot != nil && !r.SlotLast.Equal(*r.Slot) {
		line += " to " + shown(r.SlotLast).At
	}
	if r.Reason != nil && *r.Reason != "" {
		line += " (" + *r.Reason + ")"
	}
	return line + ", as " + r.Trigger
}
