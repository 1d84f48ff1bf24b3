package source_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/chaos/source"
)

func anyConfig() *rapid.Generator[source.Config] {
	return rapid.Custom(func(t *rapid.T) source.Config {
		return source.Config{
			Seed: rapid.Int64Range(0, 1<<53-1).Draw(t, "seed"), Documents: rapid.IntRange(0, 12).Draw(t, "documents"),
			Changes: rapid.IntRange(0, 6).Draw(t, "changes"), Mode: source.Delta, Every: 1,
			Trouble: rapid.SampledFrom([]string{"", source.Unreadable, source.Poison}).Draw(t, "trouble"),
		}
	})
}

func TestTheSameVersionAlwaysHoldsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, v := anyConfig().Draw(t, "config"), rapid.IntRange(0, 20).Draw(t, "version")
		require.Equal(t, source.At(cfg, v), source.At(cfg, v))
		require.Equal(t, source.Step(cfg, v), source.Step(cfg, v))
		require.Empty(t, source.At(cfg, 0))
	})
}

func TestStepsLeadFromOneListingToTheNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig().Draw(t, "config")
		held := map[string]source.Document{}
		for v := range 12 {
			before := maps.Clone(held)
			for _, change := range source.Step(cfg, v) {
				switch change.Kind {
				case source.Deleted:
					require.Contains(t, held, change.SourceID)
					delete(held, change.SourceID)
				case source.Renamed:
					require.Equal(t, before[change.SourceID].Text, change.Document.Text)
					require.Empty(t, before[change.SourceID].Err, "there must be a text to keep")
					require.NotEqual(t, before[change.SourceID].Title, change.Document.Title)
					fallthrough
				default:
					held[change.SourceID] = change.Document
				}
			}
			require.Equal(t, source.List(cfg, v+1), held, "version %d", v+1)
		}
	})
}

// storing is what a store makes of steps: a document that fails keeps the text it had.
func TestWhatIsStoredIsWhatWasHandedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig().Draw(t, "config")
		stored := map[string]source.Document{}
		for v := range 12 {
			for _, change := range source.Step(cfg, v) {
				d := change.Document
				if d.Err != "" {
					d.Text = stored[change.SourceID].Text
				}
				if change.SourceID == source.PoisonID {
					d = source.Document{Err: "given up: "}
				}
				if stored[change.SourceID] = d; change.Kind == source.Deleted {
					delete(stored, change.SourceID)
				}
			}
			require.Equal(t, stored, source.At(cfg, v+1), "version %d", v+1)
		}
	})
}

func TestEverythingHappensAtTimes(t *testing.T) {
	kinds, empty, back, several := map[source.Kind]int{}, 0, 0, 0
	for seed := range int64(150) {
		cfg := source.Config{Seed: seed, Documents: 8, Changes: 3, Mode: source.Delta}
		gone := map[string]bool{}
		for v := range 8 {
			step := source.Step(cfg, v)
			if len(step) == 0 {
				empty++
			}
			for _, change := range step {
				kinds[change.Kind]++
				if change.Kind != source.Deleted && gone[change.SourceID] {
					back++
				}
				gone[change.SourceID] = change.Kind == source.Deleted
				if len(change.Document.Text) > topology.MaxMessageBytes {
					several++
				}
			}
		}
	}
	for what, n := range map[string]int{
		"written": kinds[source.Written], "renamed": kinds[source.Renamed], "deleted": kinds[source.Deleted],
		"empty steps": empty, "deleted and back": back, "of several parts": several,
	} {
		require.Greater(t, n, 3, what)
	}
	require.Less(t, several, kinds[source.Written]/50)
}

func TestOneDocumentOfEveryVersionIsUnreadableAndHealsInTheNext(t *testing.T) {
	cfg := source.Config{Seed: 7, Documents: 6, Changes: 2, Mode: source.Delta, Trouble: source.Unreadable}
	failed := func(v int) (ids []string) {
		for id, d := range source.List(cfg, v) {
			if d.Err != "" {
				require.Empty(t, d.Token)
				ids = append(ids, id)
			}
		}
		return ids
	}
	checked := 0
	for v := 1; v < 30; v++ {
		if len(source.List(cfg, v)) > 1 && len(source.List(cfg, v+1)) > 1 {
			checked++
			require.Len(t, failed(v), 1)
			require.NotEqual(t, failed(v), failed(v+1))
		}
	}
	require.Greater(t, checked, 20)
}

func TestPoisonIsOneDocumentThatIsStoredAsFailed(t *testing.T) {
	cfg := source.Config{Seed: 7, Documents: 6, Changes: 2, Mode: source.Listing, Trouble: source.Poison}
	require.Contains(t, source.List(cfg, 1)[source.PoisonID].Text, failpoint.PoisonText)
	for v := 1; v < 20; v++ {
		require.Equal(t, source.Document{Err: "given up: "}, source.At(cfg, v)[source.PoisonID])
		for _, change := range source.Step(cfg, v) {
			require.NotEqual(t, source.PoisonID, change.SourceID)
		}
	}
}

func TestChunksAreTheTextAndTheKitTakesThem(t *testing.T) {
	for seed := range int64(60) {
		for id, d := range source.List(source.Config{Seed: seed, Documents: 12, Mode: source.Delta}, 1) {
			var whole strings.Builder
			for _, c := range source.Chunks(d.Text) {
				require.True(t, utf8.ValidString(c.Text))
				require.LessOrEqual(t, len(c.Text), worker.MaxChunkBytes)
				require.Equal(t, d.Text[c.Start:c.End], c.Text, id)
				whole.WriteString(c.Text)
			}
			require.Equal(t, d.Text, whole.String())
		}
	}
}

func TestTroubleStrikesAtEverySoManiethVersion(t *testing.T) {
	for _, trouble := range []string{source.Fail, source.Permanent, source.Panic, source.Hang, source.Kill} {
		cfg := source.Config{Trouble: trouble, Every: 3}
		for v, strikes := range []bool{false, false, true, false, false, true} {
			require.Equal(t, strikes, cfg.Strikes(v), "%s at %d", trouble, v)
		}
	}
	for _, trouble := range []string{"", source.Unreadable, source.Poison} {
		require.False(t, source.Config{Trouble: trouble, Every: 1}.Strikes(0))
	}
}

func TestAConfigurationSurvivesItsJSON(t *testing.T) {
	cfg := source.Config{Seed: 1<<53 - 1, Documents: 3, Changes: 2, Milliseconds: 100, Mode: source.Listing, Trouble: source.Fail, Every: 2}
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	again, err := source.Parse(text)
	require.NoError(t, err)
	require.Equal(t, cfg, again)
}

func TestEveryProblemOfAConfigurationIsNamed(t *testing.T) {
	_, err := source.Parse([]byte(`{"seed": -1, "documents": -1, "mode": "push", "trouble": "fail"}`))
	for _, part := range []string{"seed -1", "documents -1", `mode "push"`, "every 0"} {
		require.ErrorContains(t, err, part)
	}
	_, err = source.Parse([]byte(`{"mode": "delta", "trouble": "rust"}`))
	require.ErrorContains(t, err, `trouble "rust"`)
	_, err = source.Parse([]byte(`{"mode": "delta", "color": "red"}`))
	require.ErrorContains(t, err, "color")
}
