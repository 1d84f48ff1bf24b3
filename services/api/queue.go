package api

import (
	"context"
	"net/http"
	"time"

	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

// queueLook is how many of all that wait are looked at for a page.
const queueLook = 2000

func (a *API) queueRoutes() {
	register(a, identity.ListQueue, http.MethodGet, "/queue", "List what waits to run, the longest first, and for what", http.StatusOK, a.listQueue)
}

// QueueList is how what waits is asked for. A page is short: each on it costs what /why costs.
type QueueList struct {
	PageSize  int64  `query:"page_size" minimum:"1" maximum:"50" default:"25" format:"int32" doc:"How many at most."`
	PageToken string `query:"page_token" maxLength:"500" doc:"The next_page_token of an earlier page."`
}

// Waiting is a connector that waits.
type Waiting struct {
	ConnectorID int32     `json:"connector_id"`
	Name        string    `json:"name"`
	Type        string    `json:"type"`
	Status      string    `json:"status" enum:"PENDING,SYNCING,ACTIVE,ERROR,DISABLED"`
	Since       time.Time `json:"since" doc:"Since when: since it is due; PENDING, since its message was sent; SYNCING, since it asked for the lock."`
	Position    *int64    `json:"position" doc:"Which one of its type's it is of those that are due, or that are PENDING; null where it waits for a key or a lock, or where 10,000 are before it."`
	Cause       string    `json:"cause" doc:"For what it waits, for programs, as /why has it."`
	Why         string    `json:"why" doc:"The same in a sentence."`
	Next        string    `json:"next" doc:"What happens next, and who does it."`
}

// QueuePage is one page of what waits.
type QueuePage struct {
	Body struct {
		Waiting       []Waiting `json:"waiting"`
		NextPageToken *string   `json:"next_page_token" doc:"Null where there are no more. A page may have fewer than asked for, and a next one."`
	}
}

// queuePlace is behind what a page begins.
type queuePlace struct {
	Since       time.Time `json:"s"`
	ConnectorID int32     `json:"c"`
}

func (a *API) listQueue(ctx context.Context, in *QueueList) (*QueuePage, error) {
	var at queuePlace
	next, err := a.place(ctx, in.PageToken, []any{"queue"}, &at)
	if err != nil {
		return nil, err
	}
	done, err := a.queues.begin(ctx, requestOf(ctx).UserID)
	if err != nil {
		return nil, err
	}
	defer done()
	var found []dbgen.WaitingRow
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		found, err = q.Waiting(ctx, dbgen.WaitingParams{After: at.Since, AfterID: at.ConnectorID, Page: int32(in.PageSize), Look: queueLook})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &QueuePage{}
	out.Body.Waiting = []Waiting{}
	if last := len(found) - 1; last >= 0 && found[last].IsEnd {
		out.Body.NextPageToken = next(queuePlace{found[last].Since, found[last].ConnectorID})
		found = found[:last]
	}
	if len(found) == 0 {
		return out, nil
	}
	ids, since := make([]int32, len(found)), map[int32]time.Time{}
	for i, w := range found {
		ids[i], since[w.ConnectorID] = w.ConnectorID, w.Since
	}
	asked, away := a.streams.get(time.Now())
	all, err := evidence.QueueSeen(ctx, a.inTx, asked, away, ids, a.config.Scheduler.Settings())
	if err != nil {
		return nil, err
	}
	for i, e := range all {
		if unknown := e.Streams.Unknown; unknown != nil { // what did not answer, and how, is the operator's
			if i == 0 {
				a.log.Warn("an answer for what connectors wait is not whole", "request", requestOf(ctx).RequestID, "err", unknown)
			}
			e.Streams.Unknown = errNATSAway
		}
		answer := evidence.Explain(e)
		out.Body.Waiting = append(out.Body.Waiting, Waiting{
			ConnectorID: answer.ConnectorID, Name: answer.Name, Type: answer.Type, Status: answer.Status, Since: since[answer.ConnectorID].UTC(), Position: e.Position(),
			Cause: string(answer.Cause), Why: secret.Text(answer.Why), Next: secret.Text(answer.Next),
		})
	}
	return out, nil
}
