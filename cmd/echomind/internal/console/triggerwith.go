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
	sources "github.com/echomind/sync/services/connector"
)

// maxParameters is how many bytes the parameters of a run may have.
const maxParameters = 16 << 10

// runParameters are what the next run of connectors is to have over their configuration.
type runParameters struct {
	text  string
	given bool
	// unchecked: they are taken where the type's service of this version would refuse the configuration that comes out.
	unchecked bool
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

// check refuses parameters that the service of a connector would refuse, or that hold a secret.
func (p *runParameters) check(ctx context.Context, f *finder, pool *pgxpool.Pool, id int32) error {
	if !p.given {
		return nil
	}
	with, err := ask(ctx, pool, "config_with", func(ctx context.Context, q *dbgen.Queries) (dbgen.ConfigWithRow, error) {
		return q.ConfigWith(ctx, dbgen.ConfigWithParams{ID: id, Parameters: []byte(p.text)})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return noConnector(id)
	}
	if err != nil {
		return fmt.Errorf("read the configuration of connector %d: %w", id, err)
	}
	if err := p.checkSecrets(id, with.Type); err != nil {
		return err
	}
	as := connectorFlags{unchecked: p.unchecked, of: "--with"}
	if err := as.checkSource(dbgen.AddConnectorParams{Type: with.Type, Config: with.Config}); err != nil {
		return err
	}
	return as.checkReach(ctx, f, with.Type, with.Config)
}

// checkSecrets refuses what is a secret of the type, and what looks like one: the ledger keeps parameters as they are.
func (p *runParameters) checkSecrets(id int32, connectorType string) error {
	var top map[string]json.RawMessage
	value, err := decode([]byte(p.text))
	if err = errors.Join(err, json.Unmarshal([]byte(p.text), &top)); err != nil {
		return err
	}
	refused := func(key string) error {
		return usagef("--with: %s is a secret, and the ledger would show it; a run has those of its connector: "+
			"`echomind connectors update %d --config …` changes them", key, id)
	}
	for _, field := range sources.SecretFields(connectorType) {
		if _, is := top[field]; is {
			return refused(field)
		}
	}
	if path, is := secretIn(value); is {
		return refused(path)
	}
	return nil
}

// secretIn is the path of the first value, in order, that our output would mask, or whose key names a secret.
func secretIn(value any) (path string, is bool) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if _, flag := v[key].(bool); isSecret(key) && !flag {
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
		return "", maskValue(v) != any(v)
	}
	return "", false
}
