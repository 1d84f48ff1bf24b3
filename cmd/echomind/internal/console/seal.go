package console

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/secret"
	sources "github.com/echomind/sync/services/connector"
)

// ring reads the keys for secrets: those of the environment, else those that `echomind run` made beside its Postgres.
// It is nil where there are none; who needs one says so then.
func (f *finder) ring() (*secret.Ring, error) {
	var keys config.Secrets
	if err := config.Load(&keys); err != nil {
		return nil, err
	}
	if keys.SecretsKey == "" && keys.SecretsKeyFile == "" {
		lookup, err := f.lookup()
		if err != nil {
			return nil, err
		}
		if file := secret.FileIn(lookup.DataDir); lookup.DatabaseURL == "" {
			if _, err := os.Stat(file); err == nil {
				keys.SecretsKeyFile = file
			}
		}
	}
	return secret.Load(keys.SecretsKeyFile, keys.SecretsKey)
}

// seal replaces the secrets in a connector's configuration by envelopes, before anybody else sees it.
func (f *finder) seal(id int32, p *dbgen.AddConnectorParams) error {
	fields := sources.SecretFields(p.Type)
	if len(fields) == 0 {
		return nil
	}
	ring, err := f.ring()
	if err != nil {
		return err
	}
	sealed, err := ring.SealConfig(id, fields, p.Config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	p.Config = sealed
	return nil
}

// sealNew is seal for a connector that is not there yet: envelopes are bound to its number, which is taken first.
func (f *finder) sealNew(ctx context.Context, pool *pgxpool.Pool, p *dbgen.AddConnectorParams) error {
	if len(sources.SecretFields(p.Type)) == 0 {
		return nil
	}
	id, err := ask(ctx, pool, "reserve_id", func(ctx context.Context, q *dbgen.Queries) (int32, error) {
		return q.ReserveConnectorID(ctx)
	})
	if err != nil {
		return fmt.Errorf("take a number for the connector: %w", err)
	}
	p.ID = &id
	return f.seal(id, p)
}
