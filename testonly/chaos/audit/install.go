package audit

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed install.sql
var install string

//go:embed rules.sql
var installRules string

//go:embed requests.sql
var installRequests string

// Install adds the schema chaos, in which triggers keep the whole history. It must come before the first connector.
func Install(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, install+installRules+installRequests); err != nil {
		return fmt.Errorf("install the audit: %w", err)
	}
	return nil
}

// Asks is a condition that asks how the matter stands that a job's config names.
const Asks = `SELECT CASE m.stands WHEN 'met' THEN true WHEN 'not met' THEN false WHEN 'raises' THEN 1 / (length(m.stands) - 6) = 1
	WHEN 'slow' THEN pg_sleep(5) IS NOT NULL END FROM chaos.matters m WHERE m.name = $1->>'matter'`
