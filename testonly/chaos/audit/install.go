package audit

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed install.sql
var install string

// Install adds the schema chaos, in which triggers keep the whole history. It must come before the first connector.
func Install(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, install); err != nil {
		return fmt.Errorf("install the audit: %w", err)
	}
	return nil
}
