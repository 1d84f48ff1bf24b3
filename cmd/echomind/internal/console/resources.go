package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
)

// resource is what a run has used of scarce things, or lost: a provider that it has chosen, or a lock that a person took from it.
type resource struct {
	At time.Time `json:"at"`
	// Provider is null where none of those that the run asked for could be used.
	Provider   *string      `json:"provider,omitempty"`
	Lock       *string      `json:"lock,omitempty"`
	Epoch      *int64       `json:"epoch,omitempty"`
	PassedOver []passedOver `json:"passed_over,omitempty"`
	// Released is the key of a lock that a person, By, took from the run.
	Released *string `json:"released,omitempty"`
	By       *string `json:"by,omitempty"`
}

type passedOver struct {
	Provider string `json:"provider"`
	Why      string `json:"why"`
}

// resourcesOf are a run's, oldest first; none where they cannot be read.
func resourcesOf(r dbgen.SchedulerRun) []resource {
	found := []resource{}
	if len(r.Resources) == 0 || json.Unmarshal(r.Resources, &found) != nil {
		return []resource{}
	}
	return found
}

// title is what a resource is, for a table, and text what there is to say of it.
func (r resource) title() string {
	if r.Released != nil {
		return "lock"
	}
	return "provider"
}

func (r resource) text() string {
	if r.Released != nil {
		return fmt.Sprintf("%s was released by %s at %s", *r.Released, orDash(r.By), r.At.Local().Format(time.TimeOnly))
	}
	text := orDash(r.Provider)
	if r.Lock != nil && r.Epoch != nil {
		text += fmt.Sprintf(", under lock %s, epoch %d", *r.Lock, *r.Epoch)
	}
	text += " at " + r.At.Local().Format(time.TimeOnly)
	var passed []string
	for _, one := range r.PassedOver {
		passed = append(passed, one.Provider+" "+one.Why)
	}
	if len(passed) > 0 {
		text += "; not " + strings.Join(passed, "; not ")
	}
	return text
}
