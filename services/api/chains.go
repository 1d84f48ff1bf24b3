package api

import (
	"context"

	"github.com/echomind/sync/services/api/internal/dbgen"
)

// Upstream is one that a connector runs after.
type Upstream struct {
	ConnectorID    int32  `json:"connector_id"`
	Accepts        string `json:"accepts" enum:"completed,skipped" doc:"Which of its runs count; skipped: the completed ones, too."`
	MaxAgeMinutes  *int32 `json:"max_age_minutes" doc:"How old the slot of such a run may be; null = of any age."`
	TimeoutMinutes *int32 `json:"timeout_minutes" doc:"How long it is waited for; null = for ever."`
}

// upstreams are those that a connector runs after, as far as the viewer sees them.
func upstreams(ctx context.Context, q *dbgen.Queries, id int32) ([]Upstream, error) {
	rows, err := q.RunAfter(ctx, id)
	if err != nil {
		return nil, err
	}
	all := make([]Upstream, len(rows))
	for i, u := range rows {
		all[i] = Upstream{u.UpstreamID, u.Accepts, u.MaxAgeMinutes, u.TimeoutMinutes}
	}
	return all, nil
}
