package console

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/sdk/client"
	"github.com/echomind/sync/services/semantic"
)

func search(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "search [--user N] WORDS",
		Short: "Search what is stored",
		Long: `Search what is stored, as a user sees it: the documents of the user's own connectors, of those of the groups that
are named, and of the organisation's.

Through a server it is searched for who is logged in, in all that they see; --user and --group are left out. Of a text it shows up to
1,000 characters, around what was searched for, and does not say where in the document they stand.`,
		Example: `  echomind search --user 1 "backup policy"
  echomind search --user 1 --group sales --group support "price list" --limit 5 -o json
  echomind search "backup policy"`,
		Args: func(c *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, " ")) == "" {
				return usagef("%s needs words to search for", c.CommandPath())
			}
			return nil
		},
	}
	user := c.Flags().Int32("user", 0, "number of the user who searches")
	groups := c.Flags().StringArray("group", nil, "a `group` whose documents the user may see; may be repeated")
	limit := c.Flags().Int("limit", 10, fmt.Sprintf("how many hits, 1 to %d", semantic.MaxSearchLimit))
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		given := c.Flags().Changed("user")
		if given && *user < 1 {
			return usagef("--user %d: must be a user's number, 1 or more", *user)
		}
		if *limit < 1 || *limit > semantic.MaxSearchLimit {
			return usagef("--limit %d: must be 1 to %d", *limit, semantic.MaxSearchLimit)
		}
		words := strings.Join(args, " ")
		hits, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]hit, error) {
			if !given {
				return nil, usagef("--user: must be the number of the user who searches")
			}
			return searched(c.Context(), pool, semantic.Reader{UserID: *user, Groups: *groups}, words, *limit)
		}, func(r *remote) ([]hit, error) {
			if given || len(*groups) > 0 {
				return nil, usagef("--user and --group: a server searches for who is logged in; leave them out")
			}
			return r.search(c.Context(), words, *limit)
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), append([]hit{}, hits...), func(w io.Writer) error { return printHits(w, hits) })
	}
	return c
}

// hit is what is shown of a part of a document that was found.
type hit struct {
	semantic.Hit
	// Start and End are where it stands in the document; null through a server.
	Start *int64 `json:"start"`
	End   *int64 `json:"end"`
}

func searched(ctx context.Context, pool *pgxpool.Pool, reader semantic.Reader, words string, limit int) ([]hit, error) {
	qdrant, err := config.Read[config.Qdrant]()
	if err != nil {
		return nil, err
	}
	found, err := semantic.NewSearcher(pool, qdrant).Search(ctx, reader, words, limit)
	hits := make([]hit, len(found))
	for i, h := range found {
		h.SourceID, h.URL = masks.URL(h.SourceID), masks.URL(h.URL)
		hits[i] = hit{h, &found[i].Start, &found[i].End}
	}
	return hits, err
}

func (r *remote) search(ctx context.Context, words string, limit int) ([]hit, error) {
	answer, err := r.api.SearchWithResponse(ctx, &client.SearchParams{Q: words, PageSize: new(int32(limit))})
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	found, err := readAs[struct{ Hits *[]hit }](answer.Body)
	if err != nil {
		return nil, err
	}
	if err := r.is(found.Hits != nil && len(*found.Hits) <= limit); err != nil {
		return nil, err
	}
	return *found.Hits, nil
}

func printHits(w io.Writer, hits []hit) error {
	if len(hits) == 0 {
		_, err := fmt.Fprintln(w, "nothing found")
		return err
	}
	rows := make([][]string, len(hits))
	for i, h := range hits {
		where := h.URL
		if where == "" {
			where = h.SourceID
		}
		title := strings.Join(append([]string{h.Title}, h.HeadingPath...), " › ")
		if len(h.HeadingPath) > 0 && h.HeadingPath[0] == h.Title {
			title = strings.Join(h.HeadingPath, " › ")
		}
		rows[i] = []string{fmt.Sprintf("%.2f", h.Score), clip(h.Connector, 20), clip(title, 40), clip(line.One(h.Text), 80), where}
	}
	return table(w, []string{"SCORE", "CONNECTOR", "TITLE", "TEXT", "WHERE"}, rows)
}
