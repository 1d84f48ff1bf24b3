package page

import (
	"net/http"
	"time"
)

// waiting is a source that waits.
type waiting struct {
	ConnectorID int32     `json:"connector_id"`
	Name        string    `json:"name"`
	Type        string    `json:"type"`
	Status      string    `json:"status"`
	Since       time.Time `json:"since"`
	Position    *int64    `json:"position"`
	Cause       string    `json:"cause"`
	Why         string    `json:"why"`
	Next        string    `json:"next"`

	State  state   `json:"-"`
	At     *moment `json:"-"`
	Remedy string  `json:"-"`
}

type queueView struct {
	common
	Waiting     []waiting
	Next, First string
}

// queue is what waits to run, the longest first, and for what.
func (p *pages) queue(q *request) error {
	asked := q.listed()
	asked.Set("page_size", "25")
	var found struct {
		Waiting []waiting `json:"waiting"`
		Next    *string   `json:"next_page_token"`
	}
	if err := q.get("/queue", asked, &found); err != nil {
		return err
	}
	view, now := queueView{common: q.common("Queue", "queue"), Waiting: found.Waiting}, time.Now()
	for i := range view.Waiting {
		w := &view.Waiting[i]
		w.At, w.Remedy = q.zone.in(&w.Since, "UTC", now), remedies[w.Cause]
		if w.State = stateOf(w.Status); w.Status == "ACTIVE" || w.Status == "ERROR" {
			w.State = stateOf("due")
		}
	}
	view.Next, view.First = q.around(asked, found.Next)
	q.render(http.StatusOK, "queue.html", view)
	return nil
}
