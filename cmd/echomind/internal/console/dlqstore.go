package console

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

// letterRuns says which runs sessions are.
func letterRuns(pool *pgxpool.Pool) deadletter.Runs {
	return func(ctx context.Context, sessions []uuid.UUID) (map[uuid.UUID]deadletter.Run, error) {
		rows, err := dbgen.New(pool).LetterRuns(ctx, sessions)
		runs := make(map[uuid.UUID]deadletter.Run, len(rows))
		for _, row := range rows {
			runs[row.ID] = deadletter.Run{ConnectorID: row.ConnectorID, HasParameters: row.HasParameters}
		}
		return runs, err
	}
}

// maxNoted is how much of a text of a letter's the audit has, in bytes.
const maxNoted = 2048

// noteLetters writes into the audit what is done with letters of one connector, in the words of the API.
func noteLetters(ctx context.Context, q *dbgen.Queries, action string, connectorID int32, letters ...deadletter.Letter) error {
	p := dbgen.NoteLettersParams{Action: action, ConnectorID: connectorID}
	for _, l := range letters {
		p.Letters, p.Subjects, p.SourceIds = append(p.Letters, int64(l.ID)), append(p.Subjects, forAudit(l.Subject)), append(p.SourceIds, forAudit(l.SourceID))
	}
	return q.NoteLetters(ctx, p)
}

func forAudit(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxNoted)], "")
}

// noteDrop writes into the audit that a letter is removed, which is done next: nothing is removed without an entry.
func noteDrop(ctx context.Context, pool *pgxpool.Pool, l deadletter.Letter) error {
	return deadline.Do(ctx, "console.note_drop", queryTimeout, func(ctx context.Context) error {
		return noteLetters(ctx, dbgen.New(pool), "deadletters.drop", l.ConnectorID, l)
	})
}

// fetchAgain has documents of a connector fetched again that these letters are about.
func fetchAgain(pool *pgxpool.Pool, letters []deadletter.Letter) deadletter.FetchAgain {
	return func(ctx context.Context, connectorID int32, sourceIDs []string) (at time.Time, err error) {
		err = postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
			q := dbgen.New(tx)
			if at, err = q.TriggerConnector(ctx, dbgen.TriggerConnectorParams{ID: connectorID}); err != nil {
				return err
			}
			if _, err = q.ForgetTokens(ctx, dbgen.ForgetTokensParams{ConnectorID: connectorID, SourceIds: sourceIDs}); err != nil {
				return err
			}
			return noteLetters(ctx, q, "deadletters.replay", connectorID, letters...)
		})
		return at, err
	}
}
