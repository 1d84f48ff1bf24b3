package campaign

import (
	"context"

	"github.com/echomind/sync/testonly/chaos/world"
)

// owners is how many owners the synthetic connectors have: those whose numbers differ by it have the same, and may run after each other.
const owners = 5

// follows says whether the connector of a type with this number, from 1, runs after others, and has no schedule of its own: one of ten. Of 20 the
// 11th runs after the 6th, and the 16th after the 11th; each other 11th runs after three.
func follows(connectorType string, number int) bool {
	return connectorType != typeStarved && (number%20 == 11 || number%20 == 16)
}

// addChains has those that follow run after others of their owner. Where they run after several, skipped runs count as well.
func addChains(ctx context.Context, w *world.World) error {
	_, err := w.Pool.Exec(ctx, `
		WITH numbered AS (SELECT id, type, row_number() OVER (PARTITION BY type ORDER BY id) AS no FROM connectors WHERE type = ANY ($1))
		INSERT INTO run_after (connector_id, upstream_id, accepts)
		SELECT f.id, u.id, CASE WHEN f.no % 40 = 31 THEN 'skipped' ELSE 'completed' END
		FROM numbered f JOIN numbered u ON u.type = f.type AND (u.no = f.no - $2 OR (f.no % 40 = 31 AND u.no IN (f.no - 2 * $2, f.no - 3 * $2)))
		WHERE f.no % 20 IN (11, 16)`, []string{typeSynthetic, typeCapped}, owners)
	return wrap("have connectors run after others", err)
}
