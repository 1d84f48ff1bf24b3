package console

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
)

const (
	resealPage = 200
	// resealTries bounds how often a configuration is read again that changes while it is sealed anew.
	resealTries = 5
)

func secrets(f *finder) *cobra.Command {
	return group("secrets", "Make keys for the secrets of connectors, and change them",
		`The secrets in connectors' configurations (refresh tokens, client secrets, keys of service accounts) are encrypted before
they are stored, with the first of the keys in SECRETS_KEY_FILE or SECRETS_KEY. All of the keys decrypt.`,
		secretsKey(), secretsRotate(f))
}

func secretsKey() *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Make a key and print it",
		Long: `Make a key and print it, as SECRETS_KEY_FILE and SECRETS_KEY have it. Nothing is kept: who loses it loses the secrets
that were encrypted with it, and every user has to connect again.`,
		Example: "  (umask 077; echomind secrets key > secrets.key)\n  export SECRETS_KEY_FILE=$PWD/secrets.key",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			key, err := secret.NewKey()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), key)
			return err
		},
	}
}

// resealed is what `secrets rotate` did.
type resealed struct {
	Key string `json:"key"`
	// Connectors and RotatedTokens are those that hold envelopes; Envelopes are those that were sealed anew.
	Connectors    int      `json:"connectors"`
	RotatedTokens int      `json:"rotated_tokens"`
	Envelopes     int      `json:"envelopes"`
	Current       int      `json:"current"`
	Failed        []string `json:"failed"`
}

func secretsRotate(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "rotate", Short: "Encrypt all secrets with the current key",
		Long: `Encrypt all secrets with the current key, which is the first in SECRETS_KEY_FILE or SECRETS_KEY; the old ones stand behind
it. No sync is disturbed, and nothing is fetched again. It can be stopped and started again at any time.

Give the new file to every connector service before, and take the old key out of it only when every sync is done that was
in flight: messages that are queued, or dead letters, still hold what was encrypted with it.`,
		Example: "  (umask 077; { echomind secrets key; cat old.key; } > secrets.key)\n" +
			"  SECRETS_KEY_FILE=secrets.key echomind secrets rotate",
		Args: cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.noServer(); err != nil {
			return err
		}
		ring, err := f.ring()
		if err != nil {
			return err
		}
		if ring == nil {
			return secret.ErrNoKey
		}
		return f.withPool(c.Context(), func(pool *pgxpool.Pool) error {
			done := resealed{Key: ring.Current(), Failed: []string{}}
			if err := errors.Join(
				resealConfigs(c.Context(), pool, ring, &done), resealTokens(c.Context(), pool, ring, &done),
			); err != nil {
				return err
			}
			err := out.show(c.OutOrStdout(), done, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "sealed %d envelopes anew with key %s, and %d had it already; %d connectors and %d rotated tokens hold envelopes\n",
					done.Envelopes, done.Key, done.Current, done.Connectors, done.RotatedTokens)
				return err
			})
			if len(done.Failed) > 0 {
				var problems []error
				for _, failed := range done.Failed {
					problems = append(problems, errors.New(failed))
				}
				return errors.Join(err, fmt.Errorf("%d could not be sealed anew; they stay as they are", len(done.Failed)), errors.Join(problems...))
			}
			return err
		})
	}
	return c
}

// resealConfigs seals the secrets of all configurations anew, each in a transaction of its own: syncs go on meanwhile.
func resealConfigs(ctx context.Context, pool *pgxpool.Pool, ring *secret.Ring, done *resealed) error {
	for after := int32(0); ; {
		page, err := ask(ctx, pool, "sealed_configs", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.SealedConfigsRow, error) {
			return q.SealedConfigs(ctx, dbgen.SealedConfigsParams{After: after, Page: resealPage})
		})
		if err != nil {
			return fmt.Errorf("list the configurations: %w", err)
		}
		for _, row := range page {
			after = row.ID
			if err := resealConfig(ctx, pool, ring, row.ID, row.Config, done); err != nil {
				return err
			}
		}
		if len(page) < resealPage {
			return nil
		}
	}
}

func resealConfig(ctx context.Context, pool *pgxpool.Pool, ring *secret.Ring, id int32, sealed []byte, done *resealed) error {
	all, old, err := ring.Sealed(sealed)
	if err != nil || all == 0 {
		return err
	}
	done.Connectors++
	for range resealTries {
		fresh, count, err := ring.ResealConfig(id, sealed)
		if err != nil {
			done.Failed = append(done.Failed, fmt.Sprintf("connector %d: %s", id, err))
			return nil
		}
		if count == 0 {
			done.Current += all
			return nil
		}
		var rows int64
		err = deadline.Do(ctx, "console.reseal", queryTimeout, func(ctx context.Context) error {
			return postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
				q := dbgen.New(tx)
				if err := q.Resealing(ctx); err != nil {
					return err
				}
				rows, err = q.ResealConfig(ctx, dbgen.ResealConfigParams{ID: id, Sealed: sealed, Resealed: fresh})
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("seal the secrets of connector %d anew: %w", id, err)
		}
		if rows == 1 {
			done.Envelopes += count
			done.Current += all - old
			return nil
		}
		// Its user has changed it meanwhile, or has deleted it.
		found, err := ask(ctx, pool, "get", func(ctx context.Context, q *dbgen.Queries) (dbgen.Connector, error) {
			return q.GetConnector(ctx, id)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read connector %d: %w", id, err)
		}
		sealed = found.Config
		if all, old, err = ring.Sealed(sealed); err != nil {
			return err
		}
	}
	done.Failed = append(done.Failed, fmt.Sprintf("connector %d: its configuration keeps changing", id))
	return nil
}

// resealTokens does the same for what providers gave in place of a secret. One that changes meanwhile was sealed by a
// worker, with the key that is current there.
func resealTokens(ctx context.Context, pool *pgxpool.Pool, ring *secret.Ring, done *resealed) error {
	var after dbgen.SealedSecretsParams
	for after.Page = resealPage; ; {
		page, err := ask(ctx, pool, "sealed_secrets", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.SealedSecretsRow, error) {
			return q.SealedSecrets(ctx, after)
		})
		if err != nil {
			return fmt.Errorf("list the rotated tokens: %w", err)
		}
		for _, row := range page {
			after.AfterID, after.AfterName = row.ConnectorID, row.Name
			done.RotatedTokens++
			fresh, err := ring.Reseal(row.ConnectorID, row.Name, row.Envelope)
			if err != nil {
				done.Failed = append(done.Failed, fmt.Sprintf("connector %d: %s", row.ConnectorID, err))
				continue
			}
			if fresh == row.Envelope {
				done.Current++
				continue
			}
			rows, err := ask(ctx, pool, "reseal", func(ctx context.Context, q *dbgen.Queries) (int64, error) {
				return q.ResealSecret(ctx, dbgen.ResealSecretParams{
					ConnectorID: row.ConnectorID, Name: row.Name, Sealed: row.Envelope, Resealed: fresh,
				})
			})
			if err != nil {
				return fmt.Errorf("seal the rotated token of connector %d anew: %w", row.ConnectorID, err)
			}
			done.Envelopes += int(rows)
		}
		if len(page) < resealPage {
			return nil
		}
	}
}
