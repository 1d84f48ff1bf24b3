package console

import (
	"context"
	"fmt"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/cmd/echomind/internal/imports"
)

// importPage is how many connectors that were imported are read at once.
const importPage = 1000

// importedBefore is a connector that was imported before, with what it was known by.
type importedBefore struct {
	dbgen.ImportedConnectorsRow
	taken bool
}

// allImported reads what was imported from this origin.
func (im *importer) allImported(ctx context.Context) (all []*importedBefore, err error) {
	p := dbgen.ImportedConnectorsParams{Source: im.of, Origin: im.origin, Page: importPage}
	for {
		found, err := ask(ctx, im.pool, "imported", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ImportedConnectorsRow, error) {
			return q.ImportedConnectors(ctx, p)
		})
		if err != nil {
			return nil, fmt.Errorf("read what was imported before: %w", err)
		}
		for _, one := range found {
			all = append(all, &importedBefore{ImportedConnectorsRow: one})
			p.AfterKey, p.AfterVariant = one.Key, one.Variant
		}
		if len(found) < importPage {
			return all, nil
		}
		if len(all) > 10*imports.MaxRows {
			return nil, fmt.Errorf("origin %q has more than %d connectors; import under several", clip(im.origin, 40), 10*imports.MaxRows)
		}
	}
}

// rowIdentity is what a row is known by.
type rowIdentity struct{ key, variant string }

// match finds for each row the connector that it became: first by key and variant; then, of rows with a variant, by the key alone, in order;
// then by the variant alone, where one row and one connector are left with it: its key was edited.
func match(rows []imports.Row, all []*importedBefore) map[int]*importedBefore {
	matched := map[int]*importedBefore{}
	take := func(i int, s *importedBefore) {
		matched[i], s.taken = s, true
	}
	exact := map[rowIdentity]*importedBefore{}
	for _, s := range all {
		exact[rowIdentity{s.Key, s.Variant}] = s
	}
	for i := range rows {
		if s := exact[rowIdentity{rows[i].Key, rows[i].Variant}]; s != nil && !s.taken {
			take(i, s)
		}
	}
	byKey, byVariant := map[string][]*importedBefore{}, map[string][]*importedBefore{}
	for _, s := range all {
		if !s.taken && s.Variant != "" {
			byKey[s.Key] = append(byKey[s.Key], s)
		}
	}
	for i := range rows {
		if left := byKey[rows[i].Key]; matched[i] == nil && mayBeEdited(rows[i]) && len(left) > 0 {
			take(i, left[0])
			byKey[rows[i].Key] = left[1:]
		}
	}
	for _, s := range all {
		if !s.taken && s.Variant != "" {
			byVariant[s.Variant] = append(byVariant[s.Variant], s)
		}
	}
	edited := map[string][]int{}
	for i := range rows {
		if matched[i] == nil && mayBeEdited(rows[i]) {
			edited[rows[i].Variant] = append(edited[rows[i].Variant], i)
		}
	}
	for variant, those := range edited {
		if left := byVariant[variant]; len(those) == 1 && len(left) == 1 {
			take(those[0], left[0])
		}
	}
	return matched
}

// mayBeEdited says whether a row may have been known by another key or variant.
func mayBeEdited(row imports.Row) bool { return row.Variant != "" && row.Refused == "" }
