package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/slots"
	sources "github.com/echomind/sync/services/connector"
)

// offThere is the message of a connector that an import has switched off, and may switch on again.
const offThere = "switched off where it was imported from"

const disabled = "DISABLED"

// became is what was made of a row.
type became struct {
	action  string
	id      *int32
	changes []string
	// renamed says that nothing else has changed: its plan stays.
	renamed bool
}

// write adds the connector of a row, or changes what is other than the row has it. Without --apply it only says what it would do.
func (im *importer) write(ctx context.Context, row imports.Row, known *importedBefore) (done became, err error) {
	if !im.apply {
		if known == nil {
			return became{action: rowCreated}, nil
		}
		done, err = ask(ctx, im.pool, "import_look", func(ctx context.Context, q *dbgen.Queries) (became, error) {
			old, err := q.GetConnector(ctx, known.ConnectorID)
			if err != nil {
				return became{}, err
			}
			_, done, err := im.compared(ctx, q, row, old)
			return done, err
		})
		return done, err
	}
	err = deadline.Do(ctx, "console.import", queryTimeout, func(ctx context.Context) error {
		return postgres.Tx(ctx, im.pool, func(tx pgx.Tx) (err error) {
			q := dbgen.New(tx)
			if err := q.LockImport(ctx, dbgen.LockImportParams{Source: im.of, Origin: im.origin}); err != nil {
				return err
			}
			var id int32
			if known != nil {
				id = known.ConnectorID
			} else if id, err = q.ImportedAs(ctx, dbgen.ImportedAsParams{Source: im.of, Origin: im.origin, Key: row.Key, Variant: row.Variant}); errors.Is(err, pgx.ErrNoRows) {
				done, err = im.create(ctx, q, row)
				return err
			}
			if err == nil {
				done, err = im.change(ctx, q, row, id)
			}
			return err
		})
	})
	return done, err
}

// wanted changes in p what a row says; the rest is its user's.
func wanted(p *dbgen.AddConnectorParams, row imports.Row) {
	p.Name, p.Type, p.UserID, p.Scope, p.ScopeID, p.Config = row.Name, row.Type, &row.UserID, row.Scope, row.ScopeID, row.Config
	p.RefreshFreqMinutes, p.ScheduleCron, p.By = row.Minutes, row.Cron, person()
	if row.Cron != nil {
		p.TimeZone = row.Zone
	}
}

func (im *importer) create(ctx context.Context, q *dbgen.Queries, row imports.Row) (became, error) {
	p := dbgen.AddConnectorParams{TimeZone: "UTC", MaxRetries: 5, SpreadPercent: 10, Overlap: slots.OverlapSkip, CatchUp: slots.CatchUpLatest, CatchUpMost: 10, CalendarUse: slots.Exclude}
	wanted(&p, row)
	if len(sources.SecretFields(p.Type)) > 0 { // envelopes are bound to its number
		id, err := q.ReserveConnectorID(ctx)
		if err != nil {
			return became{}, err
		}
		p.ID = &id
		if err := im.find.seal(id, &p); err != nil {
			return became{}, err
		}
	}
	added, err := q.AddConnector(ctx, p)
	if err != nil {
		return became{}, err
	}
	done := became{action: rowCreated, id: &added.ID}
	if err := im.note(ctx, q, row, added.ID); err != nil {
		return done, err
	}
	if row.Disabled {
		_, err = q.SwitchOff(ctx, dbgen.SwitchOffParams{ID: added.ID, Message: offThere})
		return done, err
	}
	return done, im.waits(ctx, q, added.ID, row.LastRun)
}

func (im *importer) note(ctx context.Context, q *dbgen.Queries, row imports.Row, id int32) error {
	return q.NoteImported(ctx, dbgen.NoteImportedParams{ConnectorID: id, Source: im.of, Origin: im.origin, Key: row.Key, Variant: row.Variant})
}

// waits has a job run first at its next time; a source is synced at once, because nothing of it is stored.
func (im *importer) waits(ctx context.Context, q *dbgen.Queries, id int32, since *time.Time) error {
	if im.of == fromEchoMind {
		return nil
	}
	_, err := q.WaitForSlot(ctx, dbgen.WaitForSlotParams{ID: id, Since: since})
	return err
}

func (im *importer) change(ctx context.Context, q *dbgen.Queries, row imports.Row, id int32) (became, error) {
	old, err := q.LockConnector(ctx, id)
	if err != nil {
		return became{}, err
	}
	p, done, err := im.compared(ctx, q, row, old)
	if err != nil {
		return done, err
	}
	if err := im.note(ctx, q, row, id); err != nil || done.action == rowUnchanged {
		return done, err
	}
	if err := im.find.seal(id, &p); err != nil {
		return done, err
	}
	_, err = q.UpdateConnector(ctx, changeTo(id, p))
	switch {
	case err != nil:
		return done, err
	case isOn(old) && row.Disabled:
		_, err = q.SwitchOff(ctx, dbgen.SwitchOffParams{ID: id, Message: offThere})
	case isOffThere(old) && !row.Disabled:
		_, err = q.SwitchOn(ctx, id)
	}
	if err == nil && old.RunID == nil && !done.renamed { // else its run was for a slot, and is done again
		err = im.waits(ctx, q, id, nil)
	}
	return done, err
}

func isOn(c dbgen.Connector) bool { return c.Status != disabled }

// isOffThere says whether an import has switched a connector off: what a person, or its failures, have switched off stays so.
func isOffThere(c dbgen.Connector) bool {
	return c.Status == disabled && c.StatusMessage != nil && *c.StatusMessage == offThere
}

// compared is a connector as a row has it, and what of it is other than it stands.
func (im *importer) compared(ctx context.Context, q *dbgen.Queries, row imports.Row, old dbgen.Connector) (p dbgen.AddConnectorParams, done became, err error) {
	done = became{action: rowChanged, id: &old.ID}
	p = existingParams(old)
	wanted(&p, row)
	if p.Config, err = im.withExistingSecrets(row, old); err != nil {
		return p, done, err
	}
	stored, err := q.SameConfig(ctx, dbgen.SameConfigParams{ID: old.ID, Config: p.Config})
	if err != nil {
		return p, done, err
	}
	changed := func(what, from, to string) {
		if from != to {
			done.changes = append(done.changes, fmt.Sprintf("%s: %s, was %s", what, clip(masks.URL(to), 80), clip(masks.URL(from), 80)))
		}
	}
	changed("name", old.Name, p.Name)
	named := len(done.changes)
	changed("type", old.Type, p.Type)
	changed("user", owner(old.UserID), owner(p.UserID))
	changed("scope", old.Scope+" "+orDash(old.ScopeID), p.Scope+" "+orDash(p.ScopeID))
	now := imports.Row{Cron: old.ScheduleCron, Zone: old.TimeZone, Minutes: old.RefreshFreqMinutes}
	changed("schedule", scheduleOf(now), scheduleOf(row))
	if !stored.Same {
		done.changes = append(done.changes, "config")
	}
	switch {
	case isOn(old) && row.Disabled:
		done.changes = append(done.changes, "switched off")
	case isOffThere(old) && !row.Disabled:
		done.changes = append(done.changes, "switched on")
	}
	if done.renamed = len(done.changes) == named; done.renamed && named == 0 {
		done.action = rowUnchanged
	}
	return p, done, nil
}

// withExistingSecrets is a row's configuration with the envelopes that stand, where what is in them is the same: sealed anew it would
// look like another.
func (im *importer) withExistingSecrets(row imports.Row, old dbgen.Connector) ([]byte, error) {
	fields := sources.SecretFields(row.Type)
	if len(fields) == 0 || old.Type != row.Type {
		return row.Config, nil
	}
	ring, err := im.find.ring()
	if err != nil {
		return nil, err
	}
	opened, err := ring.OpenConfig(old.ID, fields, old.Config)
	if err != nil { // a key that is lost: it is sealed anew
		return row.Config, nil //nolint:nilerr // said above
	}
	var here, there map[string]any
	if err := errors.Join(json.Unmarshal(row.Config, &here), json.Unmarshal(old.Config, &there)); err != nil {
		return nil, err
	}
	kept := maps.Clone(here)
	for _, field := range fields {
		if text, isText := here[field].(string); isText && opened[field] == text {
			kept[field] = there[field]
		}
	}
	return masks.Encode(kept)
}
