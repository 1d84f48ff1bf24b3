package mutants_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/chaos/fault"
	"github.com/echomind/sync/testonly/chaos/mutants"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func TestEveryMutantFitsWhatItChanges(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for _, m := range mutants.All {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			pool, err := pgxpool.New(context.Background(), testkit.Database(t, db.Up))
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			require.NoError(t, m.Spoil(context.Background(), pool))
			dir := t.TempDir()
			other := filepath.Join(dir, "other.json")
			require.NoError(t, os.WriteFile(other, []byte(`{"Replace": {}}`), 0o600))
			_, err = m.Overlay(root, dir, other)
			require.NoError(t, err)
			require.True(t, len(m.SQL) > 0 || len(m.Go) > 0 || m.Script != "")
			require.NotEmpty(t, m.Finds)
			if m.Scenario == nil {
				require.NotEmpty(t, fault.Named(m.Faults), m.Faults)
			}
		})
	}
}

func TestTheTableOfMutantsIsTheList(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reliability.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| mutant | seed | found by |\n|---|---|---|\n")
	require.True(t, found, "docs/reliability.md has no table of mutants")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, m := range mutants.All {
		seed := ""
		if m.Seed > 0 {
			seed = fmt.Sprint(m.Seed, " ")
		}
		want = append(want, fmt.Sprintf("| %s | %s| %s |", m.Was, seed, strings.Join(m.Finds, ", ")))
	}
	require.Equal(t, strings.Join(want, "\n"), table)
}

func TestWhatTheScenariosShowIsOnlyTheMutants(t *testing.T) {
	for _, m := range mutants.All {
		if m.Scenario == nil {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			for _, spoil := range []bool{false, true} {
				pool, err := pgxpool.New(context.Background(), testkit.Database(t, db.Up))
				require.NoError(t, err)
				t.Cleanup(pool.Close)
				if spoil {
					require.NoError(t, m.Spoil(context.Background(), pool))
				}
				f, err := m.Scenario(context.Background(), pool)
				require.NoError(t, err)
				require.Equal(t, spoil, f.Violated > 0, f.Violations)
			}
		})
	}
}
