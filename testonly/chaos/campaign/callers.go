package campaign

import (
	"context"
	"math/rand/v2"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/rest"
	"github.com/echomind/sync/testonly/chaos/world"
)

// manyOf is who acts over REST: nobody else has connectors of theirs. Each has so many for operations on many: more than a batch of the API has, and few, so that runs by
// users over REST are few beside the others.
var manyOf = map[int32]int{71: 55, 72: 8}

// addAsked adds the connectors on which operations on many work. All others of their type are added over REST.
func addAsked(ctx context.Context, w *world.World) error {
	for user, n := range manyOf {
		_, err := w.Pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, config, max_retries)
			SELECT $1 || i, $2, $3, jsonb_build_object('seed', i, 'documents', 1, 'changes', 1, 'milliseconds', 0, 'mode', 'delta'), 1000 FROM generate_series(1, $4::int) i`,
			rest.NameOfMany(user), typeAsked, user, n)
		if err != nil {
			return wrap("add connectors for operations on many", err)
		}
	}
	return nil
}

// callers are those who act over REST, each with a token.
func callers(ctx context.Context, w *world.World, cfg Config) (all []*rest.Person, err error) {
	var replicas []string
	for _, p := range w.Named("api") {
		replicas = append(replicas, p.API)
	}
	for user := range manyOf {
		secret := identity.NewSecret()
		var token int32
		err := w.Pool.QueryRow(ctx, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by)
			VALUES ($1, 'user', '{read,operate,write}', $2, 'chaos') RETURNING id`, user, secret.Hash()).Scan(&token)
		if err != nil {
			return nil, wrap("make a token", err)
		}
		rng := rand.New(rand.NewPCG(cfg.Seed, 100+uint64(user)))
		all = append(all, rest.NewPerson(user, identity.Token(token, secret), typeAsked, replicas, rng, cfg.Log))
	}
	return all, nil
}

// answered holds what they have written down against the audit of the system.
func answered(ctx context.Context, w *world.World, callers []*rest.Person, commitsLost bool) ([]audit.Finding, error) {
	var all audit.Requests
	for _, c := range callers {
		one := c.Requests()
		all.Asked, all.Wrong, all.Answers = append(all.Asked, one.Asked...), append(all.Wrong, one.Wrong...), all.Answers+one.Answers
	}
	found, err := audit.Answered(ctx, w.Pool, all, commitsLost)
	return found, wrap("audit what was asked over REST", err)
}
