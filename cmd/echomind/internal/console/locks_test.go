package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
)

// atWork is a connector whose run is at work.
func (u terminal) atWork(id int32) lifecycle.Try {
	u.t.Helper()
	return movestest.Syncing(u.t, u.pool(), id)
}

func TestLocksAreListedAndReleasedAndTheLedgerSaysByWhom(t *testing.T) {
	u := newTerminal(t).as(consoleRole)
	require.Contains(t, u.succeed("locks", "list"), "no run holds a lock")
	require.Empty(t, u.array("locks", "list"))
	u.add("--refresh", "60m")
	u.add("--name", "other", "--refresh", "60m")
	holds, waits := u.atWork(1), u.atWork(2)
	u.exec(`SELECT moves.acquire_lock($1, $2, 'ollama:global', '5 minutes')`, holds.Run, holds.ID)
	u.exec(`SELECT moves.acquire_lock($1, $2, 'ollama:global', '5 minutes', true)`, waits.Run, waits.ID)

	one := u.array("locks", "list")[0]
	require.Equal(t, "ollama:global", one["key"])
	require.Equal(t, holds.Run.String(), one["run_id"])
	require.InDelta(t, 1, one["connector_id"], 0)
	require.InDelta(t, 1, one["waiting"], 0)
	require.Regexp(t, `ollama:global +\d+ +1 \(docs\) +`+holds.Run.String()[:8]+` .* (4m\d+s|5m) +1`, u.succeed("locks", "list"))

	refused := u.run("locks", "release", "ollama:global")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, "--yes")
	require.Contains(t, u.run("locks", "release", "gpu", "--yes").stderr, "no run holds a lock gpu")
	require.Equal(t, 2, u.run("locks", "release").code)

	done := u.object("locks", "release", "ollama:global", "--yes")
	require.Equal(t, one["epoch"], done["epoch"])
	require.NotEmpty(t, done["released_by"])
	require.NotEmpty(t, done["expires_at"])
	require.Contains(t, u.run("locks", "release", "ollama:global", "--yes").stderr, "no run holds a lock", "it is released once")
	u.exec(`SELECT moves.free_locks($1, $2, 'ollama:global')`, holds.Run, holds.ID)
	require.Regexp(t, `ollama:global +- +- +- +- +- +1`, u.succeed("locks", "list"), "somebody waits for it")
	u.exec(`SELECT moves.note_provider($1, $2, 'gemini', 'gemini:eu', 7, '[{"provider": "ollama", "why": "429"}]')`, holds.Run, holds.ID)
	u.exec(`SELECT moves.fail($1, $2, 'transient', 'it broke')`, holds.Run, holds.ID)
	shown := u.succeed("runs", "show", holds.Run.String())
	require.Contains(t, shown, "ollama:global was released by "+done["released_by"].(string))
	require.Regexp(t, `provider +gemini, under lock gemini:eu, epoch 7 at .*; not ollama 429`, shown)
	of := u.object("runs", "show", holds.Run.String())["resources"].([]any)
	require.Len(t, of, 2)
	require.Equal(t, "gemini", of[1].(map[string]any)["provider"])
}
