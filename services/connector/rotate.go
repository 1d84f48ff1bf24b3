package connector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/dbgen"
)

// rotatedName is the name of the stored token that replaces config's refresh_token. Its envelope is bound to this name.
const rotatedName = "rotated.refresh_token"

// rotation is a run's refresh token: the token in the connector's configuration, or the last one that the provider gave in its
// place.
type rotation struct {
	queries   *dbgen.Queries
	ring      *secret.Ring
	connector int32
	run       *worker.Run
	from      string // a hash of the token in the configuration
	token     string
}

// replacement is the content of the envelope. From identifies the token that it replaces: after the user has connected again that
// is another, and the replacement is worthless.
type replacement struct {
	Token string `json:"token"`
	From  string `json:"from"`
}

// rotation reads the token that replaces the configured refresh token.
func (s *service) rotation(ctx context.Context, run *worker.Run, configured string) (*rotation, error) {
	sum := sha256.Sum256([]byte(configured))
	r := &rotation{
		queries: s.queries, ring: s.ring, connector: run.Request().ConnectorId, run: run,
		from: hex.EncodeToString(sum[:]), token: configured,
	}
	if configured == "" {
		return r, nil
	}
	var envelope string
	err := run.Patiently(ctx, "connector.read_secret", func(ctx context.Context) (err error) {
		envelope, err = r.queries.ReplacedSecret(ctx, dbgen.ReplacedSecretParams{ConnectorID: r.connector, Name: rotatedName})
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the rotated refresh token: %w", err)
	}
	text, err := r.ring.Open(r.connector, rotatedName, envelope)
	if err != nil {
		return nil, refusedSecret(err)
	}
	var rotated replacement
	if err := json.Unmarshal([]byte(text), &rotated); err == nil && rotated.From == r.from {
		r.token = rotated.Token
		return r, nil
	}
	err = run.Patiently(ctx, "connector.forget_secret", func(ctx context.Context) error {
		return r.queries.ForgetSecret(ctx, dbgen.ForgetSecretParams{
			ConnectorID: r.connector, Name: rotatedName, Envelope: envelope,
		})
	})
	return r, err
}

// Rotate stores a refresh token that replaces the previous one. It returns lifecycle.ErrFenced where the run belongs to another
// try, which then keeps its own token.
func (r *rotation) Rotate(ctx context.Context, newToken string) error {
	text, err := json.Marshal(replacement{Token: newToken, From: r.from})
	if err != nil {
		return err
	}
	envelope, err := r.ring.Seal(r.connector, rotatedName, string(text))
	if err != nil {
		return err
	}
	var kept bool
	try := r.run.Try()
	err = r.run.Patiently(ctx, "connector.rotate_secret", func(ctx context.Context) (err error) {
		kept, err = r.queries.ReplaceSecret(ctx, dbgen.ReplaceSecretParams{
			RunID: try.Run, TryID: try.ID, Name: rotatedName, Envelope: envelope,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("write it down: %w", err)
	}
	if !kept {
		return lifecycle.ErrFenced
	}
	return nil
}
