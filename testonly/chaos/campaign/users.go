package campaign

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/echomind/sync/testonly/chaos/world"
)

// users trigger, switch off and on, change and delete connectors, and edit what the real ones read, until ctx ends.
// Postgres away is a wait for them too.
func users(ctx context.Context, w *world.World, sites int, rng *rand.Rand, log *slog.Logger) {
	for edition := 1; ctx.Err() == nil; edition++ {
		for _, act := range []string{
			`UPDATE connectors SET trigger_requested_at = clock_timestamp()
				WHERE status <> 'DISABLED' AND type <> 'idle' AND id % 97 = $1 % 97`,
			`SELECT moves.disable(id) FROM connectors WHERE status <> 'DISABLED' AND type = 'synthetic' AND id % 499 = $1 % 499`,
			`SELECT moves.enable(id) FROM connectors WHERE status = 'DISABLED' AND status_message = 'disabled by the user'
				AND id % 7 = $1 % 7`,
			`UPDATE connectors SET config = config || jsonb_build_object('seed', $1::int)
				WHERE type = 'synthetic' AND config->>'mode' = 'listing' AND id % 997 = $1 % 997`,
			`DELETE FROM connectors WHERE type = 'synthetic' AND id % 1999 = $1 % 1999`,
		} {
			asking, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err := w.Pool.Exec(asking, act, rng.IntN(1<<30))
			cancel()
			if err != nil && ctx.Err() == nil {
				log.Debug("a user has to wait", "err", err)
			}
		}
		i, k := rng.IntN(sites), rng.IntN(5)
		if err := editFile(filepath.Join(w.Files, fmt.Sprint(i)), k, edition); err != nil {
			log.Warn("a file could not be edited", "err", err)
		}
		editPage(w.Site, i, k, edition)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
