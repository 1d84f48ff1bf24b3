package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/services/semantic"
)

func search(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "search --user N WORDS",
		Short: "Search what is stored",
		Long: `Search what is stored, as a user sees it: the documents of the user's own connectors, of those of the groups that
are named, and of the organisation's.`,
		Example: `  echomind search --user 1 "backup policy"
  echomind search --user 1 --group sales --group support "price list" --limit 5 -o json`,
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
	_ = c.MarkFlagRequired("user")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *user < 1 {
			return usagef("--user %d: must be a user's number, 1 or more", *user)
		}
		if *limit < 1 || *limit > semantic.MaxSearchLimit {
			return usagef("--limit %d: must be 1 to %d", *limit, semantic.MaxSearchLimit)
		}
		qdrant, err := config.Read[config.Qdrant]()
		if err != nil {
			return err
		}
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			reader := semantic.Reader{UserID: *user, Groups: *groups}
			hits, err := semantic.NewSearcher(pool, qdrant).Search(c.Context(), reader, strings.Join(args, " "), *limit)
			if err != nil {
				return err
			}
			for i := range hits {
				hits[i].SourceID, hits[i].URL = masks.URL(hits[i].SourceID), masks.URL(hits[i].URL)
			}
			return out.show(c.OutOrStdout(), append([]semantic.Hit{}, hits...), func(w io.Writer) error { return printHits(w, hits) })
		})
	}
	return c
}

func printHits(w io.Writer, hits []semantic.Hit) error {
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
