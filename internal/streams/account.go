package streams

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/deadline"
)

// leastForTriggers is what must be left for the triggers, whose stream has no bound: room for some 16,000.
const leastForTriggers = 64 << 20

// AccountWarnings says where the account's limits are below the sum of the streams' bounds. A full account refuses messages,
// and their publishers wait; it only happens earlier than the streams' bounds promise.
func AccountWarnings(ctx context.Context, js jetstream.JetStream) (found []string, err error) {
	info, err := deadline.Get(ctx, "streams.account", queryTimeout, js.AccountInfo)
	if err != nil {
		return nil, fmt.Errorf("ask for the account's limits: %w", err)
	}
	tiers := info.Tiers // limits by number of replicas, where the account has any
	if len(tiers) == 0 {
		tiers = map[string]jetstream.Tier{"": info.Tier}
	}
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		tier := tiers[name]
		limit, taken := tier.Limits.MaxStore, int64(max(tier.ReservedStore, tier.Store))
		if limit > 0 && limit-taken < leastForTriggers {
			found = append(found, fmt.Sprintf("the account%s may store %d MiB, of which the streams' bounds take %d: the triggers have no room when "+
				"the others are full; raise its limit, or lower --max-document-bytes", tierName(name), limit>>20, taken>>20))
		}
	}
	return found, nil
}

func tierName(name string) string {
	if name == "" {
		return ""
	}
	return "'s tier " + name
}
