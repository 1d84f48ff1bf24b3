package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/masks"
)

// maxParameters is how many bytes the parameters of a run may have.
const maxParameters = 16 << 10

// runParameters are what the next run of connectors is to have over their configuration.
type runParameters struct {
	text  string
	given bool
}

// read makes them a JSON object with each key once, or refuses them.
func (p *runParameters) read(c *cobra.Command) error {
	if p.given = c.Flags().Changed("with"); !p.given {
		return nil
	}
	if err := readObject("--with", &p.text, c.InOrStdin()); err != nil {
		return err
	}
	if err := checkObject("--with", p.text); err != nil {
		return err
	}
	var small bytes.Buffer
	if err := json.Compact(&small, []byte(p.text)); err != nil || small.Len() > maxParameters {
		return usagef("--with: has %d bytes, may have at most %d", small.Len(), maxParameters)
	}
	p.text = small.String()
	return nil
}

// json is what Postgres is given; nil for none.
func (p *runParameters) json() []byte {
	if !p.given {
		return nil
	}
	return []byte(p.text)
}

// asks says whether they ask for a run of their own; empty ones take those back that were given before.
func (p *runParameters) asks() bool { return p.given && p.text != "{}" }

// check refuses parameters of a source, and those that hold a secret.
func (p *runParameters) check(ctx context.Context, pool *pgxpool.Pool, id int32) error {
	if !p.given {
		return nil
	}
	is, err := ask(ctx, pool, "kind_of_connector", func(ctx context.Context, q *dbgen.Queries) (dbgen.KindOfRow, error) {
		return q.KindOf(ctx, id)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return noConnector(id)
	case err != nil:
		return fmt.Errorf("ask what connector %d is: %w", id, err)
	case is.Kind != "job":
		return usagef("--with: connector %d is a source (%s), and parameters are for jobs: what is stored of a source is what its configuration says; "+
			"`echomind connectors update %d --config …` changes that", id, is.Name, id)
	}
	return p.checkSecrets(id)
}

// checkSecrets refuses what looks like a secret: the ledger keeps parameters as they are.
func (p *runParameters) checkSecrets(id int32) error {
	value, err := masks.Decode([]byte(p.text))
	if err != nil {
		return err
	}
	if path, is := secretIn(value); is {
		return usagef("--with: %s is a secret, and the ledger would show it; a run has those of its connector: "+
			"`echomind connectors update %d --config …` changes them", path, id)
	}
	return nil
}

// secretIn is the path of the first value, in order, that our output would masks.Mask, or whose key names a secret.
func secretIn(value any) (path string, is bool) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch v[key].(type) {
			case bool, json.Number, nil: // such as max_tokens
				continue
			}
			if masks.IsSecret(key) {
				return key, true
			}
			if inner, is := secretIn(v[key]); is {
				return strings.TrimSuffix(key+"."+inner, "."), true
			}
		}
	case []any:
		for _, one := range v {
			if inner, is := secretIn(one); is {
				return strings.TrimSuffix("[]."+inner, "."), true
			}
		}
	case string:
		return "", masks.Value(v, true) != any(v)
	}
	return "", false
}
