package tenant

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/chaos/audit"
)

// found is a chunk of the others'.
type found struct {
	Connector  int32
	Owner      int32
	SourceID   string
	Status     string
	Title      string
	Text       string
	Start, End int64
}

// chunks are all that the others' documents show, in order.
func (l *lab) chunks(ctx context.Context) ([]found, error) {
	rows, err := l.Pool.Query(ctx, `
		SELECT c.id, c.user_id, d.source_id, d.status, d.title, coalesce(k.text, ''), coalesce(k.start_offset, 0), coalesce(k.end_offset, 0)
		FROM connectors c JOIN documents d ON d.connector_id = c.id
		LEFT JOIN chunks k ON k.try_id = d.try_id AND k.first_no = d.first_no AND k.document_id = d.id
		WHERE c.id = ANY ($1) AND d.deleted_at IS NULL ORDER BY d.connector_id, d.source_id, k.no`, l.ids())
	if err != nil {
		return nil, wrap("read the others' documents", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
	return all, wrap("read the others' documents", err)
}

// whole holds what is stored of the others against what their folders and pages say.
func (l *lab) whole(all []found) audit.Finding {
	f := audit.Finding{
		Promise: 5, Name: "others' documents are whole",
		How: "each document of the ordinary connectors has every paragraph of its present text, and there is no other",
	}
	texts := map[string]string{} // what the chunks of a document say together
	for _, c := range all {
		key := fmt.Sprint(c.Connector, " ", c.SourceID)
		before := texts[key]
		texts[key] = join(before, c)
		if c.Status != "stored" {
			violated(&f, "connector %d: %s is %s", c.Connector, c.SourceID, c.Status)
		}
	}
	for _, o := range l.others {
		for id, paragraphs := range o.texts {
			key := fmt.Sprint(o.id, " ", id)
			for _, p := range paragraphs {
				f.Checked++
				if !strings.Contains(texts[key], p) {
					violated(&f, "connector %d: %s does not have %.40q…", o.id, id, p)
				}
			}
			delete(texts, key)
		}
	}
	for key := range texts {
		violated(&f, "there is %s, which its source does not have", key)
	}
	return f
}

// join adds a chunk to those before it, with which it may overlap.
func join(before string, c found) string {
	for most := min(len(before), len(c.Text)); most > 0; most-- {
		if strings.HasSuffix(before, c.Text[:most]) {
			return before + c.Text[most:]
		}
	}
	return before + c.Text
}

// searched asks for every chunk as its owner.
func (l *lab) searched(ctx context.Context, all []found) (audit.Finding, error) {
	f := audit.Finding{
		Promise: 5, Name: "search finds others' chunks",
		How: "who searches for the text of a chunk of an own connector finds it, and nothing that was forged",
	}
	searcher := semantic.NewSearcher(l.Pool, config.Qdrant{})
	for _, c := range all {
		f.Checked++
		hits, err := searcher.Search(ctx, semantic.Reader{UserID: c.Owner}, c.Text, 5)
		if err != nil {
			return f, wrap("search", err)
		}
		there := false
		for _, h := range hits {
			there = there || h.ConnectorID == c.Connector && h.SourceID == c.SourceID && h.Text == c.Text
			if strings.Contains(h.Text+h.Title+h.URL, lie) {
				violated(&f, "user %d finds %q of connector %d", c.Owner, h.Text, h.ConnectorID)
			}
		}
		if !there {
			violated(&f, "connector %d: a chunk of %s is not found: %.60q", c.Connector, c.SourceID, c.Text)
		}
	}
	return f, nil
}

func violated(f *audit.Finding, format string, args ...any) {
	const spelled = 10
	if f.Violated++; f.Violated <= spelled {
		f.Violations = append(f.Violations, fmt.Sprintf(format, args...))
	}
}
