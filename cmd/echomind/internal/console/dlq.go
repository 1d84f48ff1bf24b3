package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/deadletter"
)

const maxLetters = 10000

func dlq(f *finder) *cobra.Command {
	return group("dlq", "Look at dead letters, have them fetched again, remove them",
		"A dead letter is a message that a service gave up on: a document that could not be stored, a trigger that could not "+
			"be read. Its run went on without it, and its connector keeps running. It is kept until somebody decides.",
		dlqList(f), dlqShow(f), dlqReplay(f), dlqDrop(f))
}

// letterView is what programs are shown of a dead letter; null = it does not say.
type letterView struct {
	ID          uint64     `json:"id"`
	Subject     string     `json:"subject"`
	Reason      string     `json:"reason"`
	Tries       int        `json:"tries"`
	Deliveries  int        `json:"deliveries"`
	Sequence    uint64     `json:"original_sequence"`
	Session     *string    `json:"session"`
	Number      int64      `json:"number"`
	ConnectorID *int32     `json:"connector_id"`
	SourceID    *string    `json:"source_id"`
	FirstAt     *time.Time `json:"first_at"`
	LastAt      time.Time  `json:"last_at"`
	Size        int        `json:"size_bytes"`
	CutFrom     int        `json:"cut_from_bytes"`
}

func viewLetter(l deadletter.Letter) letterView {
	return letterView{
		ID: l.ID, Subject: l.Subject, Reason: l.Reason, Tries: l.Tries, Deliveries: l.Deliveries, Sequence: l.Sequence,
		Session: unlessZero(l.Session), Number: l.Number, ConnectorID: unlessZero(l.ConnectorID), SourceID: unlessZero(l.SourceID),
		FirstAt: utc(l.FirstAt), LastAt: l.LastAt.UTC(), Size: l.Size, CutFrom: l.CutFrom,
	}
}

// unlessZero is nil for what a letter does not say.
func unlessZero[T comparable](value T) *T {
	var nothing T
	if value == nothing {
		return nil
	}
	return &value
}

func dlqList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters",
		Long: `List dead letters in the order in which they were given up: what was tried how often, since when, whose it is, and
why it was given up. Their contents are shown by dlq show ID.`,
		Example: "  echomind dlq list\n  echomind dlq list --connector 3 --subject document.process\n  echomind dlq list --after 120 -o json",
		Args:    cobra.NoArgs,
	}
	chosen := letterFilter(c, "only those")
	after := c.Flags().Uint64("after", 0, "only those after this `ID`")
	limit := c.Flags().Int("limit", 100, "how many, the oldest first")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *limit < 1 || *limit > maxLetters {
			return usagef("--limit %d: must be 1 to %d", *limit, maxLetters)
		}
		if err := chosen.check(c); err != nil {
			return err
		}
		filter := chosen.Filter
		filter.After = *after
		found, err := eitherLetters(c.Context(), f, func(pool *pgxpool.Pool, stream *broker.Letters) ([]letterView, error) {
			found := []letterView{}
			for letter, err := range deadletter.Walk(c.Context(), stream, letterRuns(pool), filter) {
				if err != nil {
					return nil, err
				}
				if found = append(found, viewLetter(letter)); len(found) > *limit {
					break
				}
			}
			return found, nil
		}, func(r *remote) ([]letterView, error) { return r.listLetters(c.Context(), filter, *limit+1) })
		if err != nil {
			return err
		}
		more := len(found) > *limit
		found = found[:min(len(found), *limit)]
		return out.show(c.OutOrStdout(), found, func(w io.Writer) error { return printLetters(w, found, more) })
	}
	return c
}

func printLetters(w io.Writer, found []letterView, more bool) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no dead letters")
		return err
	}
	now := time.Now()
	rows := make([][]string, len(found))
	for i, l := range found {
		rows[i] = []string{
			strconv.FormatUint(l.ID, 10), clip(l.Subject, 40), idOrDash(l.ConnectorID), clip(orDash(l.SourceID), 40),
			strconv.Itoa(l.Tries), strconv.Itoa(l.Deliveries), clock.Optional(l.FirstAt, now), clock.At(l.LastAt, now),
			clip(l.Reason, 80),
		}
	}
	err := table(w, []string{
		"ID", "SUBJECT", "CONNECTOR", "DOCUMENT", "TRIES", "DELIVERIES", "FIRST", "GIVEN UP", "REASON",
	}, rows)
	if err == nil && more {
		_, err = fmt.Fprintf(w, "and more: echomind dlq list --after %d\n", found[len(found)-1].ID)
	}
	return err
}

func idOrDash(id *int32) string {
	if id == nil {
		return "-"
	}
	return strconv.Itoa(int(*id))
}

// letters are the flags that say which dead letters are meant.
type letters struct{ deadletter.Filter }

func letterFilter(c *cobra.Command, which string) *letters {
	chosen := &letters{}
	c.Flags().StringVar(&chosen.Subject, "subject", "", which+" of this `subject`: document.process, connector.sync.web, connector.sync.*")
	c.Flags().Int32Var(&chosen.ConnectorID, "connector", 0, which+" of the connector with this `ID`")
	return chosen
}

func (l *letters) check(c *cobra.Command) error {
	if c.Flags().Changed("subject") && !deadletter.SubjectForm.MatchString(l.Subject) {
		return usagef("--subject %q: must be a subject such as document.process or connector.sync.*", clip(l.Subject, 40))
	}
	if c.Flags().Changed("connector") && l.ConnectorID < 1 {
		return usagef("--connector %d: must be a connector's number, 1 or more", l.ConnectorID)
	}
	return nil
}

// eitherLetters asks Postgres and the stream of dead letters, or the server that commands work on.
func eitherLetters[T any](
	ctx context.Context, f *finder, here func(*pgxpool.Pool, *broker.Letters) (T, error), through func(*remote) (T, error),
) (T, error) {
	return eitherOf(f, func() (found T, err error) {
		err = f.withLetters(ctx, func(pool *pgxpool.Pool, stream *broker.Letters) (err error) {
			found, err = here(pool, stream)
			return err
		})
		return found, err
	}, through)
}

// withLetters opens Postgres and the stream of dead letters, and closes them after work.
func (f *finder) withLetters(ctx context.Context, work func(*pgxpool.Pool, *broker.Letters) error) error {
	where, notRunning, err := f.find()
	if err != nil {
		return err
	}
	if where.databaseURL == "" {
		return notRunning
	}
	return where.withPool(ctx, func(pool *pgxpool.Pool) error {
		asked, err := where.broker(notRunning)
		if err != nil {
			return err
		}
		defer asked.Close()
		stream, err := asked.Letters(ctx)
		if err != nil {
			return err
		}
		return work(pool, stream)
	})
}

// letterArgument accepts exactly one dead letter's number.
func letterArgument(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one ID, the dead letter's number as `echomind dlq list` shows it", c.CommandPath())
	}
	_, err := letterID(args[0])
	return err
}

func letterID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 63)
	if err != nil || id < 1 {
		return 0, usagef("ID %q: must be a dead letter's number, 1 or more", clip(text, 40))
	}
	return id, nil
}

func noLetter(id uint64) error {
	return fmt.Errorf("there is no dead letter %d; `echomind dlq list` shows those there are", id)
}

// letterByID reads one dead letter, with its connector where that can be told.
func letterByID(
	ctx context.Context, pool *pgxpool.Pool, stream *broker.Letters, id uint64,
) (deadletter.Letter, deadletter.Content, []byte, error) {
	raw, err := stream.Get(ctx, id)
	if errors.Is(err, broker.ErrNoLetter) {
		err = noLetter(id)
	}
	if err != nil {
		return deadletter.Letter{}, deadletter.Content{}, nil, err
	}
	letter, content := deadletter.Read(raw)
	one := []deadletter.Letter{letter}
	err = deadletter.Resolve(ctx, letterRuns(pool), one)
	return one[0], content, raw.Data, err
}
