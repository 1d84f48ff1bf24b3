// Package freshness says whether what is stored of a connector is as fresh as its user wants it, whatever its schedule says.
package freshness

import (
	"fmt"
	"time"

	"github.com/echomind/sync/internal/clock"
)

// State is how fresh it is.
type State string

// The states.
const (
	// Fresh: its last sync is not older than it may be.
	Fresh State = "fresh"
	// Late: its last sync is older than it may be.
	Late State = "late"
	// Never: no sync of it has completed.
	Never State = "never"
	// Unknown: nobody has said how old it may be, or nothing of its present configuration is stored yet.
	Unknown State = "unknown"
)

// Freshness is a connector's.
type Freshness struct {
	State State `json:"state" enum:"fresh,late,never,unknown"`
	// AgeSeconds is how long ago its last sync ended; null where there was none.
	AgeSeconds *int64 `json:"age_seconds"`
	// LimitMinutes is how old it may be; null where nobody has said.
	LimitMinutes *int32 `json:"limit_minutes"`
	// How says in a sentence what State is concluded from.
	How string `json:"how"`
}

// Connector is what it is concluded from: columns of the connector.
type Connector struct {
	FreshWithinMinutes *int32
	// LastSyncAt is when its last sync ended that completed, or found that nothing had changed.
	LastSyncAt *time.Time
	// SyncedVersion is the configuration of that sync, ConfigVersion the present one.
	SyncedVersion *int64
	ConfigVersion int64
}

// Of says how fresh a connector is at a moment of Postgres's.
func Of(c Connector, now time.Time) Freshness {
	f := Freshness{LimitMinutes: c.FreshWithinMinutes}
	if c.LastSyncAt == nil {
		f.State, f.How = Never, "no sync has completed"
		return f
	}
	age := max(now.Sub(*c.LastSyncAt), 0)
	seconds := int64(age / time.Second)
	f.AgeSeconds = &seconds
	f.How = "last synced " + clock.Ago(*c.LastSyncAt, now)
	switch {
	case c.SyncedVersion == nil || *c.SyncedVersion != c.ConfigVersion:
		f.State = Unknown
		f.How += ", and its configuration has changed since"
	case c.FreshWithinMinutes == nil:
		f.State = Unknown
		f.How += "; nobody has said how old it may be"
	default:
		limit := time.Duration(*c.FreshWithinMinutes) * time.Minute
		f.State = Fresh
		if age > limit {
			f.State = Late
		}
		f.How += fmt.Sprintf(", may be %s old", clock.Span(limit))
	}
	return f
}
