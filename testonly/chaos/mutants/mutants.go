// Package mutants puts defects back that the design excludes, one at a time, to show that the audit would see each of them.
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// Files that are changed for a mutant.
const (
	storeSQL = "services/semantic/internal/dbgen/store.sql.go"
	storeGo  = "services/semantic/store.go"
)

// ErrChanged says that what a mutant changes is not there any more: the mutant has to follow.
var ErrChanged = errors.New("the mutant does not fit")

// Edit is one change of a function of the schema, or of a file of semantic, named from the root of the project.
type Edit struct{ Of, Old, New string }

// Mutant is a defect.
type Mutant struct {
	Name string
	// Was says what is wrong with it.
	Was string
	// SQL is changed in the database, Script run there, Go in semantic's sources.
	SQL    []Edit
	Script string
	Go     []Edit
	// Faults are those of the campaign that shows it, Seed is its seed.
	Faults string
	Seed   uint64
	// Scenario shows it instead of a campaign.
	Scenario func(context.Context, *pgxpool.Pool) (audit.Finding, error)
	// Finds are the checks; one of them sees it.
	Finds []string
}

// Spoil changes the schema.
func (m Mutant) Spoil(ctx context.Context, pool *pgxpool.Pool) error {
	for _, e := range m.SQL {
		rows, err := pool.Query(ctx, `SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
			WHERE n.nspname || '.' || p.proname = $1`, e.Of)
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Of, err)
		}
		var text string
		n := 0
		for rows.Next() {
			n++
			if err := rows.Scan(&text); err != nil {
				return fmt.Errorf("read %s: %w", e.Of, err)
			}
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("read %s: %w", e.Of, err)
		}
		if n != 1 {
			return fmt.Errorf("%w: there are %d functions %s", ErrChanged, n, e.Of)
		}
		changed, err := e.in(text)
		if err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, changed); err != nil {
			return fmt.Errorf("change %s: %w", e.Of, err)
		}
	}
	if _, err := pool.Exec(ctx, m.Script); err != nil {
		return fmt.Errorf("spoil the schema: %w", err)
	}
	return nil
}

func (e Edit) in(text string) (string, error) {
	if strings.Count(text, e.Old) == 0 {
		return "", fmt.Errorf("%w: %s has no %q", ErrChanged, e.Of, e.Old)
	}
	return strings.ReplaceAll(text, e.Old, e.New), nil
}

// Overlay writes the changed files into dir and an overlay for go build, which holds those of another overlay too. root is
// the project's.
func (m Mutant) Overlay(root, dir, other string) (string, error) {
	var overlay struct{ Replace map[string]string }
	text, err := os.ReadFile(other)
	if err == nil {
		err = json.Unmarshal(text, &overlay)
	}
	if err != nil {
		return "", fmt.Errorf("read the overlay of the harness: %w", err)
	}
	changed := map[string]string{}
	for _, e := range m.Go {
		if changed[e.Of] == "" {
			text, err := os.ReadFile(filepath.Join(root, e.Of))
			if err != nil {
				return "", fmt.Errorf("read what is to be changed: %w", err)
			}
			changed[e.Of] = string(text)
		}
		if changed[e.Of], err = e.in(changed[e.Of]); err != nil {
			return "", err
		}
	}
	for name := range maps.Keys(changed) {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+".overlay")
		if err := os.WriteFile(file, []byte(changed[name]), 0o644); err != nil {
			return "", fmt.Errorf("write what is changed: %w", err)
		}
		overlay.Replace[filepath.Join(root, name)] = file
	}
	text, err = json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o644)
}
