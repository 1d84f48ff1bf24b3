package page

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// standing is what runs, and how much waits.
type standing struct {
	SeenAt   time.Time `json:"seen_at"`
	Services []struct {
		Name        string     `json:"name"`
		Connections int64      `json:"connections"`
		Since       *time.Time `json:"since"`
		LastActive  *time.Time `json:"last_active"`
	} `json:"services"`
	Streams []struct {
		Name     string     `json:"name"`
		Exists   bool       `json:"exists"`
		Messages uint64     `json:"messages"`
		Bytes    uint64     `json:"bytes"`
		OldestAt *time.Time `json:"oldest_at"`
	} `json:"streams"`
	Subscribers []struct {
		Consumer    string `json:"consumer"`
		Stream      string `json:"stream"`
		FreeSlots   int    `json:"free_slots"`
		Undelivered uint64 `json:"undelivered"`
		Unacked     int    `json:"unacknowledged"`
	} `json:"subscribers"`
	Connectors []struct {
		Type       string `json:"type"`
		Status     string `json:"status"`
		Connectors int64  `json:"connectors"`
		IsEstimate bool   `json:"is_estimate"`
	} `json:"connectors"`
	SystemJobs []struct {
		ID      int32      `json:"id"`
		Type    string     `json:"type"`
		Status  string     `json:"status"`
		Verdict *string    `json:"verdict"`
		EndedAt *time.Time `json:"ended_at"`
		Reason  *string    `json:"reason"`
		NextAt  *time.Time `json:"next_at"`
	} `json:"system_jobs"`
	Keys []struct {
		Key     string    `json:"key"`
		Limit   *int32    `json:"limit"`
		Held    int64     `json:"held"`
		Waiting int64     `json:"waiting"`
		Oldest  time.Time `json:"oldest_due_at"`
	} `json:"keys_waited_for"`
	Events struct {
		Waiting         int64      `json:"waiting"`
		OldestAt        *time.Time `json:"oldest_at"`
		DroppedStatus   int64      `json:"dropped_status"`
		DroppedVerdicts int64      `json:"dropped_verdicts"`
	} `json:"events"`
	NotAsked []string `json:"not_asked"`
	Problems []string `json:"problems"`
}

// Asked says whether what a field of the answer says is so.
func (s standing) Asked(field string) bool { return !slices.Contains(s.NotAsked, field) }

// What services are called who are connected to Postgres.
const schedulerService, electionService, idleService = "echomind-scheduler", "echomind-scheduler-leader", "echomind-scheduler-off"

// serviceWords are what each is for.
var serviceWords = map[string]string{
	schedulerService: "claims what is due", electionService: "leads the schedulers, or waits to", idleService: "is switched off, and dispatches nothing", "echomind-chunker": "fetches and cuts documents", "echomind-connector": "fetches from places",
	"echomind-semantic": "stores what is fetched", "echomind-api": "this page, and the API",
}

// connectorCount is how many sources of a type are in a state.
type connectorCount struct {
	Type       string
	State      state
	Connectors int64
	// IsEstimate says that there are about so many.
	IsEstimate bool
	List       string
}

type systemView struct {
	common
	standing
	Seen *moment
	// Scheduler says whether a scheduler is connected, Leader whether one leads or waits to.
	Scheduler, Leader state
	Counts            []connectorCount
}

// In is a moment in the zone that is chosen.
func (v systemView) In(t *time.Time) *moment { return v.Zone.in(t, "UTC", time.Now()) }

// Then is In of a moment that there always is.
func (v systemView) Then(t time.Time) *moment { return v.In(&t) }

// ForWhat is what a service is for, in words.
func (v systemView) ForWhat(service string) string { return serviceWords[service] }

// StateOf is a status or a verdict with its picture.
func (v systemView) StateOf(status string) state { return stateOf(status) }

// Verdict is that of a job's last run.
func (v systemView) Verdict(verdict *string) *state {
	if verdict == nil {
		return nil
	}
	s := stateOf(*verdict)
	return &s
}

// Size is a number of bytes as people read it.
func (v systemView) Size(bytes uint64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d bytes", bytes)
	}
	size, name := float64(bytes)/unit, "KiB"
	for _, larger := range []string{"MiB", "GiB", "TiB"} {
		if size < unit {
			break
		}
		size, name = size/unit, larger
	}
	return fmt.Sprintf("%.1f %s", size, name)
}

// system is what runs, and how much waits, for superadmins.
func (p *pages) system(q *request) error {
	view := systemView{}
	if err := q.get("/status", nil, &view.standing); err != nil {
		return err
	}
	view.common, view.Scheduler, view.Leader = q.common("System", "problems"), state{"error", "No scheduler is connected"}, state{"error", "No scheduler leads"}
	view.Seen = q.zone.in(&view.SeenAt, "UTC", time.Now())
	if !view.Asked("services") {
		view.Scheduler, view.Leader = state{"pending", "Whether a scheduler is connected is not known"}, state{"pending", "Whether one leads is not known"}
	}
	for _, s := range view.Services {
		switch s.Name {
		case schedulerService:
			view.Scheduler = state{"active", "A scheduler is connected"}
			if view.Leader.Icon == "error" { // one whose election Kubernetes holds has no connection for it
				view.Leader = state{"active", "Its election is not held in Postgres"}
			}
		case idleService:
			if view.Scheduler.Icon == "error" {
				view.Scheduler.Word = "The scheduler that is connected is switched off"
			}
		case electionService:
			view.Leader = state{"active", "A scheduler leads"}
			if s.Connections > 1 {
				view.Leader.Word = fmt.Sprintf("A scheduler leads, and %d wait to", s.Connections-1)
			}
		}
	}
	for _, c := range view.Connectors {
		view.Counts = append(view.Counts, connectorCount{c.Type, stateOf(c.Status), c.Connectors, c.IsEstimate, q.zone.to("/", "type", c.Type, "status", c.Status)})
	}
	slices.SortStableFunc(view.Counts, func(a, b connectorCount) int { return int(min(1, max(-1, b.Connectors-a.Connectors))) })
	q.render(http.StatusOK, "system.html", view)
	return nil
}
