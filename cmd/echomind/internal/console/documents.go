package console

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/masks"
)

const maxDocuments = 10000

// document is what programs are shown of one.
type document struct {
	SourceID  string    `json:"source_id"`
	Title     string    `json:"title"`
	URL       string    `json:"url"`
	MediaType string    `json:"media_type"`
	Status    string    `json:"status"`
	Error     *string   `json:"error"`
	Chunks    int32     `json:"chunks"`
	UpdatedAt time.Time `json:"updated_at"`
}

func documents(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "documents ID",
		Short: "List the documents of a connector, and why those that failed did",
		Long: `List the documents of a connector by their names in the source, with what became of each: stored; failed, and why: it
is tried again at the next sync or, where the reason lies in its content, when that changes; deleted, not swept yet; partial, some part of it is on its way.`,
		Example: "  echomind documents 3 --failed\n  echomind documents 3 --limit 1000 -o json",
		Args:    oneConnector,
	}
	failed := c.Flags().Bool("failed", false, "only those that failed")
	after := c.Flags().String("after", "", "only those whose names come after this `NAME`")
	limit := c.Flags().Int("limit", 100, "how many")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit < 1 || *limit > maxDocuments {
			return usagef("--limit %d: must be 1 to %d", *limit, maxDocuments)
		}
		p := dbgen.ListDocumentsParams{After: *after, Page: int32(*limit) + 1}
		none := "no documents"
		if *failed {
			status := "failed"
			p.Status, none = &status, "no failed documents"
		}
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			id, err := connectorID(c.Context(), pool, args[0])
			if err != nil {
				return err
			}
			p.ConnectorID = id
			if _, err := connectorByID(c.Context(), pool, id); err != nil {
				return err
			}
			found, err := ask(c.Context(), pool, "documents", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListDocumentsRow, error) {
				return q.ListDocuments(ctx, p)
			})
			if err != nil {
				return fmt.Errorf("list the documents of connector %d: %w", id, err)
			}
			more := len(found) > *limit
			found = found[:min(len(found), *limit)]
			views := make([]document, len(found))
			for i, d := range found {
				views[i] = document{
					SourceID: masks.URL(d.SourceID), Title: d.Title, URL: masks.URL(d.Url), MediaType: d.MediaType, Status: d.Status, Error: d.Error,
					Chunks: d.ChunkCount, UpdatedAt: d.UpdatedAt.UTC(),
				}
			}
			return out.show(c.OutOrStdout(), views, func(w io.Writer) error { return printDocuments(w, *out, views, none, more) })
		})
	}
	return c
}

func printDocuments(w io.Writer, out output, found []document, none string, more bool) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	now := time.Now()
	rows, notes := make([][]string, len(found)), make([]string, len(found))
	for i, d := range found {
		if d.Error != nil {
			notes[i] = *d.Error
		}
		what := []string{d.Status, strconv.Itoa(int(d.Chunks)), clock.At(d.UpdatedAt, now)}
		if out == allColumns {
			rows[i] = append([]string{d.SourceID, orDash(&d.Title), orDash(&d.URL)}, append(what, notes[i])...)
			continue
		}
		rows[i] = append([]string{orDash(&d.Title), d.path()}, what...)
	}
	var err error
	if out == allColumns {
		err = table(w, []string{"DOCUMENT", "TITLE", "URL", "STATUS", "CHUNKS", "SINCE", "WHY"}, rows)
	} else {
		err = fitted(w, []string{"TITLE", "PATH", "STATUS", "CHUNKS", "SINCE"}, rows, notes)
	}
	if err == nil && more {
		_, err = fmt.Fprintf(w, "and more: --after %s\n", printable(strconv.Quote(found[len(found)-1].SourceID)))
	}
	return err
}

// path is where people find a document. A name that says nothing but to its provider gives way to the URL.
func (d document) path() string {
	if d.URL == "" || strings.HasPrefix(d.URL, "file:") {
		return d.SourceID
	}
	return d.URL
}
