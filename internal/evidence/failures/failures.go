// Package failures says which documents of a connector are failed, grouped by reason.
package failures

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/evidence/failures/internal/dbgen"
)

const (
	// queryTimeout bounds a count, which reads every document of the connector.
	queryTimeout = 5 * time.Second
	// maxReasons is how many reasons are told apart.
	maxReasons = 5
)

// Summary is what is failed of a connector now, whichever run it failed in.
type Summary struct {
	Documents int64 `json:"documents"`
	// Reasons are the most frequent ones, the most frequent first.
	Reasons []Reason `json:"reasons"`
	// Partial: they were looked for in a part of its documents.
	Partial bool `json:"partial,omitempty" doc:"They were looked for in the first 100,000 of its documents."`
	// OtherReasons is how many there are beside those.
	OtherReasons int64 `json:"other_reasons" doc:"How many reasons there are beside those."`
}

// Reason is why documents failed, in the words of one of them.
type Reason struct {
	Reason    string `json:"reason"`
	Documents int64  `json:"documents"`
}

// Of counts the failed documents of a connector.
func Of(ctx context.Context, pool *pgxpool.Pool, connector int32) (Summary, error) {
	rows, err := deadline.Get(ctx, "failures.count", queryTimeout, func(ctx context.Context) ([]dbgen.FailedDocumentsRow, error) {
		return dbgen.New(pool).FailedDocuments(ctx, dbgen.FailedDocumentsParams{ConnectorID: connector, Page: maxReasons})
	})
	return summary(connector, rows, err)
}

// Seen is Of in a transaction of a user of services/api, who sees the connector or counts nothing.
func Seen(ctx context.Context, tx pgx.Tx, connector int32) (Summary, error) {
	found, err := dbgen.New(tx).SeenFailedDocuments(ctx, dbgen.SeenFailedDocumentsParams{ConnectorID: connector, Page: maxReasons})
	rows := make([]dbgen.FailedDocumentsRow, len(found))
	for i, r := range found {
		rows[i] = dbgen.FailedDocumentsRow(r)
	}
	s, err := summary(connector, rows, err)
	if err == nil {
		s.Partial, err = dbgen.New(tx).SeenInPart(ctx, connector)
	}
	return s, err
}

func summary(connector int32, rows []dbgen.FailedDocumentsRow, err error) (Summary, error) {
	s := Summary{Reasons: []Reason{}}
	if err != nil {
		return s, fmt.Errorf("count the failed documents of connector %d: %w", connector, err)
	}
	for _, r := range rows {
		s.Documents, s.OtherReasons = r.AllDocuments, r.Reasons-int64(len(rows))
		s.Reasons = append(s.Reasons, Reason{Reason: r.Reason, Documents: r.Documents})
	}
	return s, nil
}

// Lines are the summary for people, with the command that shows the documents; none where nothing is failed.
func (s Summary) Lines(connector int32) []string {
	if s.Documents == 0 {
		return nil
	}
	what := "1 document is failed"
	if s.Documents > 1 {
		what = fmt.Sprintf("%d documents are failed", s.Documents)
	}
	if s.Partial {
		what = "at least " + what
	}
	lines := []string{fmt.Sprintf("%s; `echomind documents %d --failed` lists what failed:", what, connector)}
	for _, r := range s.Reasons {
		lines = append(lines, fmt.Sprintf("%d × %s", r.Documents, r.Reason))
	}
	if s.OtherReasons > 0 {
		lines = append(lines, fmt.Sprintf("and %d other reasons", s.OtherReasons))
	}
	return lines
}
