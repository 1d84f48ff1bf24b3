package synthetic

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/chaos/source"
)

// knownAfter is what the kit knows once changes are stored.
func knownAfter(known map[string]worker.Known, changes []source.Change) map[string]worker.Known {
	known = maps.Clone(known)
	for _, change := range changes {
		k := worker.Known{VersionToken: change.Document.Token}
		if change.Document.Err == "" {
			k.ContentHash = source.Hash(change.Document.Text)
		}
		switch {
		case change.SourceID == source.PoisonID:
			known[change.SourceID] = worker.Known{}
		case change.Kind == source.Deleted:
			delete(known, change.SourceID)
		default:
			known[change.SourceID] = k
		}
	}
	return known
}

// wholeListing is what a listing without checkpoints sends, and how many documents stand.
func wholeListing(listing map[string]source.Document, known map[string]worker.Known, v int) (changes []source.Change, stand int) {
	shown, absent := compare(listing, known, source.State{Version: v})
	for _, change := range slices.Concat(shown, absent) {
		if change.Kind == unchanged {
			stand++
		} else {
			changes = append(changes, change)
		}
	}
	return changes, stand
}

func TestAListingThatGoesOnFromACheckpointSendsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := source.Config{Seed: rapid.Int64Range(0, 1<<20).Draw(t, "seed"), Documents: 8, Changes: 5, Mode: source.Listing}
		known := map[string]worker.Known{}
		for v := range 8 {
			listing := source.List(cfg, v+1)
			shown, absent := compare(listing, known, source.State{Version: v})
			require.Len(t, shown, len(listing))
			done := rapid.IntRange(0, len(shown)).Draw(t, "done")
			passed := knownAfter(known, slices.DeleteFunc(slices.Clone(shown[:done]), func(c source.Change) bool { return c.Kind == unchanged }))
			for _, change := range shown[:done] {
				k := passed[change.SourceID]
				k.Seen = true
				passed[change.SourceID] = k
			}
			restShown, restAbsent := compare(listing, passed, source.State{Version: v, Done: done})
			require.Equal(t, slices.Concat(shown[done:], absent), slices.Concat(restShown, restAbsent))
			sent, _ := wholeListing(listing, known, v)
			known = knownAfter(known, sent)
		}
	})
}

func TestAListingIsComparedToTheChangesThatTheSourceKnowsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := source.Config{
			Seed: rapid.Int64Range(0, 1<<20).Draw(t, "seed"), Documents: 8, Changes: 5, Mode: source.Listing,
			Trouble: rapid.SampledFrom([]string{"", source.Unreadable, source.Poison}).Draw(t, "trouble"),
		}
		known := map[string]worker.Known{}
		for v := range 8 {
			listing := source.List(cfg, v+1)
			changes, stand := wholeListing(listing, known, v)
			sent := map[string]source.Change{}
			for _, change := range changes {
				sent[change.SourceID] = change
			}
			require.Len(t, sent, len(changes), "each document once")
			for _, change := range source.Step(cfg, v) {
				require.Equal(t, change.Document, sent[change.SourceID].Document)
				require.Equal(t, change.Kind == source.Deleted, sent[change.SourceID].Kind == source.Deleted)
				delete(sent, change.SourceID)
			}
			require.Empty(t, sent, "what has not changed is not sent")
			stays := 0
			for id := range listing {
				if _, before := known[id]; before && !slices.ContainsFunc(changes, func(c source.Change) bool { return c.SourceID == id }) {
					stays++
				}
			}
			require.Equal(t, stays, stand)
			// A try that died halfway has stored some: the next one sends the rest.
			half := knownAfter(known, changes[:len(changes)/2])
			rest, _ := wholeListing(listing, half, v)
			known = knownAfter(known, changes)
			require.Equal(t, known, knownAfter(half, rest))
		}
	})
}

func TestOnlyAnotherTitleIsTouchedAndOnlyWhereTheTextIsStored(t *testing.T) {
	listing := map[string]source.Document{"doc/0": {Title: "new", Text: "text", Token: "2"}}
	for _, c := range []struct {
		known worker.Known
		kind  source.Kind
	}{
		{worker.Known{VersionToken: "1", ContentHash: source.Hash("text")}, source.Renamed},
		{worker.Known{VersionToken: "1", ContentHash: source.Hash("other")}, source.Written},
		{worker.Known{VersionToken: "", ContentHash: source.Hash("text")}, source.Written}, // it failed, or is of another configuration
		{worker.Known{}, source.Written},
	} {
		changes, _ := compare(listing, map[string]worker.Known{"doc/0": c.known}, source.State{Version: 1})
		require.Len(t, changes, 1)
		require.Equal(t, c.kind, changes[0].Kind)
	}
}

func TestTroublePassesAtTheNextTry(t *testing.T) {
	killed := 0
	old := killProcess
	killProcess = func() { killed++ }
	defer func() { killProcess = old }()
	for trouble, passes := range map[string][]string{
		source.Fail:      {"retry", "rescue", "lost", "release", "changed"},
		source.Permanent: {"retry", "rescue", "lost", "release", "changed", "manual"},
		source.Panic:     {"retry", "rescue", "lost", "release", "changed"},
		source.Kill:      {"retry", "rescue"},
	} {
		for _, reason := range []string{"new", "schedule", "manual", "retry", "rescue", "lost", "release", "changed"} {
			killed = 0
			struck := func() (struck bool) {
				defer func() { struck = struck || recover() != nil }()
				return strike(trouble, reason) != nil
			}()
			require.Equal(t, !slices.Contains(passes, reason), struck || killed > 0, "%s, %s", trouble, reason)
		}
	}
}

func TestASourceThatKillsItsWorkerKillsTheProcess(t *testing.T) {
	if os.Getenv("SYNTHETIC_TEST_DIES") != "" {
		killProcess()
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), "SYNTHETIC_TEST_DIES=1")
	var died *exec.ExitError
	require.ErrorAs(t, child.Run(), &died)
	require.Equal(t, syscall.SIGKILL, died.Sys().(syscall.WaitStatus).Signal())
}

func TestTheTypesAreTakenFromTheEnvironmentAndEachIsChecked(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1/test")
	t.Setenv("SYNTHETIC_TYPES", "synthetic,capped")
	t.Setenv("WORKER_SLOTS", "8")
	var cfg Config
	require.NoError(t, config.Load(&cfg))
	require.NoError(t, cfg.Validate())
	require.Equal(t, []string{"synthetic", "capped"}, cfg.Types)
	require.Equal(t, 8, cfg.Worker.Slots)
	cfg.Types = []string{"no type"}
	require.ErrorContains(t, cfg.Validate(), "SYNTHETIC_TYPES")
	cfg.Types = nil
	require.ErrorContains(t, cfg.Validate(), "SYNTHETIC_TYPES")
}
