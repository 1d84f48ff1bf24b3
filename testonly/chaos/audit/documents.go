package audit

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/chaos/source"
)

// standing is a synthetic connector at rest.
type standing struct {
	id            int32
	configVersion int64
	config        source.Config
	version       int
	// passed are the documents that a checkpoint stands for: they are of the next version.
	passed map[string]bool
	// exact: its last run has completed and moved the cursor. Otherwise that run may have stored some of the next version
	// already, and what an earlier configuration left may still be there.
	exact bool
}

// stored is a document with its chunks.
type stored struct {
	SourceID, Title, Status, Error, Token string
	ConfigVersion                         int64
	Claimed, Chunks                       int // by the document's row, and those that its key names
	Ordered                               bool
	Text                                  string
}

func (h *history) documents(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 5, Name: "documents are the source's",
		How: "title, text, token and error of each stored document are those of the source at the connector's version; no other is there",
	}
	all, err := h.standings(ctx, pool)
	if err != nil {
		return f, err
	}
	for _, c := range all {
		documents, err := storedOf(ctx, pool, c.id)
		if err != nil {
			return f, err
		}
		compare(&f, c, documents)
	}
	return f, nil
}

func (h *history) standings(ctx context.Context, pool *pgxpool.Pool) ([]standing, error) {
	last := map[int32]*run{}
	for _, r := range h.ordered {
		if !r.noRun() {
			last[r.life.connector] = r
		}
	}
	// One that was given up without anybody knowing whose document it was leaves the cursor where it is.
	moved := map[uuid.UUID]bool{}
	for _, e := range h.events {
		if e.From == "SYNCING" && e.To == "ACTIVE" && e.OldRun != nil {
			moved[*e.OldRun] = e.StateMoved && !e.lastCheckpoint()
		}
	}
	rows, err := pool.Query(ctx, `SELECT id, config_version, config, coalesce((state->>'version')::integer, 0),
			coalesce((state->>'done')::integer, 0)
		FROM connectors WHERE config ? 'seed' ORDER BY id`)
	if err != nil {
		return nil, wrap("read the connectors", err)
	}
	defer rows.Close()
	var all []standing
	for rows.Next() {
		var c standing
		var config []byte
		var done int
		if err := rows.Scan(&c.id, &c.configVersion, &config, &c.version, &done); err != nil {
			return nil, wrap("read the connectors", err)
		}
		if c.config, err = source.Parse(config); err != nil {
			return nil, fmt.Errorf("connector %d: %w", c.id, err)
		}
		c.passed = map[string]bool{}
		ids, _ := source.Passed(c.config, c.version, done)
		for _, id := range ids {
			c.passed[id] = true
		}
		r := last[c.id]
		c.exact = r != nil && r.synced() && r.configVersion == c.configVersion && moved[r.id]
		all = append(all, c)
	}
	return all, wrap("read the connectors", rows.Err())
}

func storedOf(ctx context.Context, pool *pgxpool.Pool, connector int32) ([]stored, error) {
	rows, err := pool.Query(ctx, `
		SELECT d.source_id, d.title, d.status, coalesce(d.error, ''), d.version_token, d.config_version, d.chunk_count,
			count(k.no), coalesce(max(k.no) + 1 = count(k.no) AND min(k.no) = 0, true),
			coalesce(string_agg(k.text, '' ORDER BY k.no), '')
		FROM documents d
		LEFT JOIN chunks k ON k.try_id = d.try_id AND k.first_no = d.first_no AND k.document_id = d.id
		WHERE d.connector_id = $1 AND d.status NOT IN ('deleted', 'partial')
		GROUP BY d.id ORDER BY d.source_id`, connector)
	if err != nil {
		return nil, wrap("read the documents", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	return all, wrap("read the documents", err)
}

// compare holds what is stored of a connector against what its source has at its version.
func compare(f *Finding, c standing, documents []stored) {
	allowed := []map[string]source.Document{source.At(c.config, c.version)}
	if !c.exact {
		allowed = append(allowed, source.At(c.config, c.version+1))
	}
	of := func(id string) []map[string]source.Document {
		if c.passed[id] {
			return allowed[len(allowed)-1:]
		}
		return allowed
	}
	there := map[string]bool{}
	for _, d := range documents {
		if !c.exact && d.ConfigVersion < c.configVersion {
			continue
		}
		f.Checked++
		there[d.SourceID] = true
		var why []string
		for _, at := range of(d.SourceID) {
			want, exists := at[d.SourceID]
			if !exists {
				why = append(why, "the source does not have it")
				continue
			}
			if different := d.differs(want); different != "" {
				why = append(why, different)
			}
		}
		if len(why) == len(of(d.SourceID)) {
			f.violated("connector %d at version %d: %s: %s", c.id, c.version, d.SourceID, strings.Join(why, "; or "))
		}
	}
	expected := maps.Clone(c.passed)
	for id := range allowed[0] {
		expected[id] = true
	}
	for id := range expected {
		missing := !there[id]
		for _, at := range of(id) {
			_, exists := at[id]
			missing = missing && exists
		}
		if missing {
			f.Checked++
			f.violated("connector %d at version %d: %s is missing", c.id, c.version, id)
		}
	}
}

// differs says in what a stored document is not the one it should be; empty where it is.
func (d stored) differs(want source.Document) string {
	var all []string
	check := func(what string, is, should any) {
		if is != should {
			all = append(all, fmt.Sprintf("%s is %s, not %s", what, brief(is), brief(should)))
		}
	}
	status := "stored"
	if want.Err != "" {
		status = "failed"
		if !strings.HasPrefix(d.Error, want.Err) {
			check("error", d.Error, want.Err)
		}
	}
	check("status", d.Status, status)
	if want.Title != "" { // a poisoned one has none of its own
		check("title", d.Title, want.Title)
	}
	check("token", d.Token, want.Token)
	check("text", d.Text, want.Text)
	check("number of chunks", d.Chunks, len(source.Chunks(want.Text)))
	check("number of chunks by its row", d.Claimed, d.Chunks)
	check("order of chunks", d.Ordered, true)
	return strings.Join(all, ", ")
}

// brief is the beginning of a long text.
func brief(v any) string {
	const most = 80
	text := fmt.Sprintf("%#v", v)
	if len(text) > most {
		return fmt.Sprintf("%.*s… (%d bytes)", most, text, len(text))
	}
	return text
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
