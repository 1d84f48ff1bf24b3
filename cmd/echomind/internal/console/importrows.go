package console

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/postgres"
	sources "github.com/echomind/sync/services/connector"
)

// importer is one import.
type importer struct {
	*importFlags
	find *finder
	pool *pgxpool.Pool
	// kinds are the types that are there.
	kinds map[string]string
}

// rows decides about every row, and writes each in a transaction of its own where it is to be written: an import that was cut off is
// mended by the next. The report is as far as it came.
func (im *importer) rows(ctx context.Context, rows []imports.Row) (*importReport, error) {
	if err := im.types(ctx); err != nil {
		return nil, err
	}
	report := &importReport{Source: im.of, Origin: im.origin, Applied: im.apply, Counts: map[string]int{}, Rows: []importRow{}}
	for _, action := range rowActions {
		report.Counts[action] = 0
	}
	im.check(ctx, rows)
	all, err := im.allImported(ctx)
	if err != nil {
		return nil, err
	}
	matched := match(rows, all)
	if report.Hint, err = im.elsewhere(ctx, rows, matched); err != nil {
		return nil, err
	}
	for i := range rows {
		if err := im.row(ctx, report, rows[i], matched[i]); err != nil {
			return report, fmt.Errorf("%s: %w; what was written before stays, and the same command goes on", rows[i].Where, err)
		}
	}
	for _, s := range all {
		if !s.taken {
			gone := importRow{Where: "-", ID: &s.ConnectorID, Name: s.Name, Changes: []string{}, Notes: []string{}}
			report.add(gone, rowGone, fmt.Sprintf("it was imported before, and is not there any more; `echomind connectors disable %d`, or delete, ends it here", s.ConnectorID))
		}
	}
	return report, nil
}

// types reads which types there are, and refuses to go on where that of the jobs is not one of them.
func (im *importer) types(ctx context.Context) error {
	known, err := ask(ctx, im.pool, "types", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ConnectorType, error) {
		return q.ListConnectorTypes(ctx)
	})
	if err != nil {
		return fmt.Errorf("list the connector types: %w", err)
	}
	im.kinds = map[string]string{}
	for _, t := range known {
		im.kinds[t.Name] = t.Kind
	}
	switch {
	case im.of == fromEchoMind:
	case im.kinds[im.connectorType] == "":
		return fmt.Errorf("type %q is not there: add it with `echomind types add %s --kind job`, or name another with --type", clip(im.connectorType, 63), clip(im.connectorType, 63))
	case im.kinds[im.connectorType] != kindJob:
		return usagef("--type %s: is a source, and a schedule becomes a job; name a type that was added with --kind job", im.connectorType)
	}
	return nil
}

// check refuses rows that cannot be right, and those that stand twice.
func (im *importer) check(ctx context.Context, rows []imports.Row) {
	first := map[rowIdentity]string{}
	for i := range rows {
		row := &rows[i]
		if im.of != fromEchoMind {
			row.Type, row.UserID = im.connectorType, im.user
		} else if row.Refused == "" && im.kinds[row.Type] == "" {
			row.Refuse("there is no type %q here; a type of your own is added with `echomind types add NAME`", clip(row.Type, 63))
		}
		row.Check()
		if row.Refused != "" {
			continue
		}
		if where, stands := first[rowIdentity{row.Key, row.Variant}]; stands {
			row.Refuse("it is the same as %s; a comment such as `# name: nightly` right above it tells jobs apart", where)
			if im.of != fromCrontab {
				row.Refused = "it is the same as " + where
			}
			continue
		}
		first[rowIdentity{row.Key, row.Variant}] = row.Where
		im.checkConfig(ctx, row)
	}
}

// checkConfig refuses a configuration that its type's service, Postgres or a reader of secrets would not like.
func (im *importer) checkConfig(ctx context.Context, row *imports.Row) {
	sealed := sources.SecretFields(row.Type)
	if err := (&connectorFlags{}).checkSource(dbgen.AddConnectorParams{Type: row.Type, Config: row.Config}); err != nil {
		row.Refuse("%s", err)
		return
	}
	if len(sealed) > 0 {
		ring, err := im.find.ring()
		if err == nil {
			_, err = ring.SealConfig(1, sealed, row.Config) // which also says that there is no key
		}
		if err != nil {
			row.Refuse("its secrets cannot be sealed: %s", err)
			return
		}
	}
	if found, is := unsealed(row.Config, sealed); is && !im.storeSecrets {
		row.Refuse("%s looks like a secret, and is not sealed in a connector of type %s: have the worker know it, or take it as it is with --store-secrets", clip(found, 80), row.Type)
		return
	}
	stored, err := ask(ctx, im.pool, "config", func(ctx context.Context, q *dbgen.Queries) (dbgen.SameConfigRow, error) {
		return q.SameConfig(ctx, dbgen.SameConfigParams{Config: row.Config})
	})
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && postgres.Refused(err):
		row.Refuse("PostgreSQL cannot store its configuration: %s", pg.Message)
	case err == nil && int(stored.Bytes) > imports.MaxValue:
		row.Refuse("its configuration has %d bytes; a connector's has at most %d", stored.Bytes, imports.MaxValue)
	}
}

// elsewhere says where else rows were imported that are new here: it may be the same file under another name.
func (im *importer) elsewhere(ctx context.Context, rows []imports.Row, matched map[int]*importedBefore) (hint string, err error) {
	var keys []string
	for i, row := range rows {
		if row.Refused == "" && matched[i] == nil {
			keys = append(keys, row.Key)
		}
	}
	if len(keys) == 0 {
		return "", nil
	}
	origin, err := ask(ctx, im.pool, "elsewhere", func(ctx context.Context, q *dbgen.Queries) (string, error) {
		return q.ImportedElsewhere(ctx, dbgen.ImportedElsewhereParams{Source: im.of, Origin: im.origin, Keys: keys})
	})
	if err != nil {
		return "", fmt.Errorf("look where else it was imported: %w", err)
	}
	if origin != "" {
		hint = fmt.Sprintf("Some of it was imported as --origin %q too: is it the same under another name?", origin)
	}
	return hint, nil
}

// row decides about one, writes it where that is to be done, and reports it. An error is one after which nothing can go on.
func (im *importer) row(ctx context.Context, report *importReport, row imports.Row, known *importedBefore) error {
	r := reported(row)
	if known != nil {
		r.ID = &known.ConnectorID
	}
	if row.Refused != "" {
		report.add(r, rowRefused, row.Refused)
		return nil
	}
	became, err := im.write(ctx, row, known)
	var usage usageError
	var pg *pgconn.PgError
	switch {
	case err == nil:
		r.ID, r.Changes = became.id, append(r.Changes, became.changes...)
		report.add(r, became.action, "")
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		report.add(r, rowRefused, "somebody deleted the connector meanwhile; the same command adds it anew")
		return nil
	case errors.As(err, &usage), errors.As(err, &pg) && (postgres.Refused(err) || postgres.Locked(err)):
		report.add(r, rowRefused, told("Postgres did not take it", err).Error())
		return nil
	}
	return err
}

// unsealed is where in a configuration something stands that looks like a secret, but for fields that are sealed.
func unsealed(config []byte, sealed []string) (path string, is bool) {
	value, err := masks.Decode(config)
	object, isObject := value.(map[string]any)
	if err != nil || !isObject {
		return "", false
	}
	for _, field := range sealed {
		delete(object, field)
	}
	return secretIn(object)
}
