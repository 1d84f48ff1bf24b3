package console

import (
	"context"
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
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/shell"
	"github.com/echomind/sync/sdk/client"
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
		asked := documentsAsked{named: args[0], after: *after, limit: *limit}
		none := "no documents"
		if *failed {
			asked.status, none = new("failed"), "no failed documents"
		}
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (documentsFound, error) {
			return documentsOf(c.Context(), pool, asked)
		}, func(r *remote) (documentsFound, error) { return r.documents(c.Context(), asked) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found.list, func(w io.Writer) error { return printDocuments(w, *out, found, none) })
	}
	return c
}

// documentsAsked are the documents that somebody wants to see.
type documentsAsked struct {
	named  string
	status *string
	after  string
	limit  int
}

// documentsFound are a connector's documents, and behind which there are more; empty: there are none.
type documentsFound struct {
	list []document
	more string
}

// placeID is what --after has before a document's number, which stands for a name that is not shown as it is.
const placeID = "id:"

// placeNumber is the number of a document that --after has in place of a name.
func placeNumber(after string) (int64, bool) {
	number, is := strings.CutPrefix(after, placeID)
	id, err := strconv.ParseInt(number, 10, 64)
	return id, is && err == nil
}

// nameAfter is the name that --after means.
func nameAfter(ctx context.Context, pool *pgxpool.Pool, connector int32, after string) (string, error) {
	id, is := placeNumber(after)
	if !is {
		return after, nil
	}
	name, err := ask(ctx, pool, "document_name", func(ctx context.Context, q *dbgen.Queries) (string, error) {
		return q.DocumentName(ctx, dbgen.DocumentNameParams{ID: id, ConnectorID: connector})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", noSuchPlace(after, connector)
	}
	return name, err
}

func noSuchPlace(after string, connector int32) error {
	return fmt.Errorf("--after %s: connector %d has no such document any more; begin without --after", after, connector)
}

func documentsOf(ctx context.Context, pool *pgxpool.Pool, asked documentsAsked) (none documentsFound, _ error) {
	id, err := connectorID(ctx, pool, asked.named)
	if err != nil {
		return none, err
	}
	if _, err := connectorByID(ctx, pool, id); err != nil {
		return none, err
	}
	after, err := nameAfter(ctx, pool, id, asked.after)
	if err != nil {
		return none, err
	}
	found, err := ask(ctx, pool, "documents", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListDocumentsRow, error) {
		return q.ListDocuments(ctx, dbgen.ListDocumentsParams{ConnectorID: id, After: after, Status: asked.status, Page: int32(asked.limit) + 1})
	})
	if err != nil {
		return none, fmt.Errorf("list the documents of connector %d: %w", id, err)
	}
	views := make([]document, len(found))
	for i, d := range found {
		views[i] = document{
			SourceID: masks.URL(d.SourceID), Title: d.Title, URL: masks.URL(d.Url), MediaType: d.MediaType, Status: d.Status, Error: d.Error,
			Chunks: d.ChunkCount, UpdatedAt: d.UpdatedAt.UTC(),
		}
	}
	shown := upTo(views, asked.limit)
	if n := len(shown.list); shown.more != "" && shown.list[n-1].SourceID != found[n-1].SourceID {
		shown.more = placeID + strconv.FormatInt(found[n-1].ID, 10)
	}
	return shown, nil
}

// upTo are the first of these.
func upTo(list []document, limit int) documentsFound {
	if len(list) <= limit {
		return documentsFound{list: list}
	}
	return documentsFound{list: list[:limit], more: list[limit-1].SourceID}
}

// remoteDocument is a document as a server lists it.
type remoteDocument struct {
	document
	AfterID *string `json:"after_id"`
}

// documents are those that a server lists.
func (r *remote) documents(ctx context.Context, asked documentsAsked) (none documentsFound, _ error) {
	id, err := r.connectorID(ctx, asked.named)
	if err != nil {
		return none, err
	}
	p := client.DocumentsListParams{Status: (*client.DocumentsListParamsStatus)(asked.status), PageSize: new(int32(min(asked.limit+1, pageSize)))}
	if number, is := placeNumber(asked.after); is {
		p.AfterID = new(strconv.FormatInt(number, 10))
	} else if asked.after != "" {
		p.After = &asked.after
	}
	list, numbers := []document{}, []*string{}
	_, err = readPages(ctx, "documents", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.DocumentsListWithResponse(ctx, id, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(d remoteDocument) bool {
		list, numbers = append(list, d.document), append(numbers, d.AfterID)
		return len(list) > asked.limit
	})
	if len(wrongFields(err)) == 1 && wrongFields(err)[0].Field == "query.after_id" {
		return none, noSuchPlace(asked.after, id)
	}
	if err != nil {
		return none, connectorError(id, fmt.Sprintf("list the documents of connector %d", id), err)
	}
	shown := upTo(list, asked.limit)
	if shown.more != "" && numbers[asked.limit-1] != nil {
		shown.more = placeID + *numbers[asked.limit-1]
	}
	return shown, nil
}

func printDocuments(w io.Writer, out output, of documentsFound, none string) error {
	found := of.list
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
	if err == nil && of.more != "" {
		_, err = fmt.Fprintf(w, "and more: --after %s\n", printable(shell.Quote(of.more)))
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
