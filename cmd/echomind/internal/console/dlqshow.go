package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/masks"
)

// What people are shown of a message: so much of each text, and so many of each list.
const shownText, shownItems = 200, 5

// letterDetails is what programs are shown of one dead letter.
type letterDetails struct {
	letterView
	Connector *ownerView      `json:"connector"`
	Document  *documentState  `json:"document"`
	Message   json.RawMessage `json:"message"`
	// Problem and Head say of a payload that is no message why, and how it begins; a server does not show that.
	Problem *string `json:"problem"`
	Head    *string `json:"head"`
}

// ownerView is the connector of a dead letter as it is now; null where it is gone.
type ownerView struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Status string `json:"status"`
}

// documentState is the document of a dead letter as it is now; null where it is not known.
type documentState struct {
	Status    string    `json:"status"`
	Error     *string   `json:"error"`
	UpdatedAt time.Time `json:"updated_at"`
}

func dlqShow(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a dead letter and what it carries",
		Long: `Show a dead letter: why it was given up, what has become of its connector and its document since, and the message,
with secrets masked. People see the beginning of long texts; -o json has all of them.`,
		Example: "  echomind dlq show 7\n  echomind dlq show 7 -o json",
		Args:    letterArgument,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := letterID(args[0])
		if err != nil {
			return err
		}
		d, err := eitherLetters(c.Context(), f, func(pool *pgxpool.Pool, stream *broker.Letters) (d letterDetails, _ error) {
			letter, content, data, err := letterByID(c.Context(), pool, stream, id)
			if err != nil {
				return d, err
			}
			d = letterDetails{letterView: viewLetter(letter)}
			carried := deadletter.Carry(letter, content, data)
			d.Message, d.Problem, d.Head = carried.Message, carried.Problem, carried.Head
			return d, d.present(c.Context(), pool, letter)
		}, func(r *remote) (letterDetails, error) { return r.letter(c.Context(), id) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), d, d.print)
	}
	return c
}

// present asks what has become of connector and document.
func (d *letterDetails) present(ctx context.Context, pool *pgxpool.Pool, l deadletter.Letter) error {
	if l.ConnectorID == 0 {
		return nil
	}
	owner, err := ask(ctx, pool, "get", func(ctx context.Context, q *dbgen.Queries) (dbgen.Connector, error) {
		return q.GetConnector(ctx, l.ConnectorID)
	})
	switch {
	case err == nil:
		d.Connector = &ownerView{Name: owner.Name, Type: owner.Type, Status: owner.Status}
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read connector %d: %w", l.ConnectorID, err)
	}
	if l.SourceID == "" || strings.Contains(l.SourceID, "\x00") {
		return nil
	}
	doc, err := ask(ctx, pool, "document", func(ctx context.Context, q *dbgen.Queries) (dbgen.GetDocumentRow, error) {
		return q.GetDocument(ctx, dbgen.GetDocumentParams{ConnectorID: l.ConnectorID, SourceID: l.SourceID})
	})
	switch {
	case err == nil:
		d.Document = &documentState{Status: doc.Status, Error: doc.Error, UpdatedAt: doc.UpdatedAt.UTC()}
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read the document: %w", err)
	}
	return nil
}

// shortened is a value as people are shown it.
func shortened(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = shortened(inner)
		}
	case []any:
		rest := len(v) - shownItems
		v = v[:min(len(v), shownItems)]
		for i, inner := range v {
			v[i] = shortened(inner)
		}
		if rest > 0 {
			v = append(v[:len(v):len(v)], fmt.Sprintf("… and %d more", rest))
		}
		return v
	case string:
		return clip(printable(v), shownText)
	}
	return value
}

// print writes a dead letter for people.
func (d letterDetails) print(w io.Writer) error {
	now := time.Now()
	rows := [][]string{
		{"subject", d.Subject},
		{"reason", d.Reason},
		{"tries", fmt.Sprintf("%d, delivered %d times", d.Tries, d.Deliveries)},
		{"session", orDash(d.Session) + ", message " + strconv.FormatInt(d.Number, 10)},
		{"connector", d.owner()},
		{"document", d.about(now)},
		{"first", clock.Optional(d.FirstAt, now)},
		{"given up", clock.At(d.LastAt, now)},
		{"size", d.size()},
	}
	if err := table(w, []string{"id", strconv.FormatUint(d.ID, 10)}, rows); err != nil {
		return err
	}
	if d.Problem != nil && d.Head == nil {
		_, err := fmt.Fprintf(w, "\n%s; how it begins is shown with DATABASE_URL and NATS_URL alone\n", printable(*d.Problem))
		return err
	}
	if d.Problem != nil {
		_, err := fmt.Fprintf(w, "\n%s; it begins with\n%s\n", printable(*d.Problem), *d.Head)
		return err
	}
	value, err := masks.Decode(d.Message)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return forPrograms.show(w, shortened(value), nil)
}

func (d letterDetails) owner() string {
	switch {
	case d.ConnectorID == nil:
		return "- (it names none, nor a session that the ledger knows)"
	case d.Connector == nil:
		return fmt.Sprintf("%d, which was deleted", *d.ConnectorID)
	}
	return fmt.Sprintf("%d %q (%s), %s", *d.ConnectorID, d.Connector.Name, d.Connector.Type, d.Connector.Status)
}

func (d letterDetails) about(now time.Time) string {
	text := orDash(d.SourceID)
	if d.Document != nil {
		text += fmt.Sprintf(", %s since %s", d.Document.Status, clock.At(d.Document.UpdatedAt, now))
		if d.Document.Error != nil {
			text += ": " + *d.Document.Error
		}
	}
	return text
}

func (d letterDetails) size() string {
	text := size(uint64(d.Size))
	if d.CutFrom > 0 {
		text += ", cut from " + size(uint64(d.CutFrom))
	}
	return text
}
