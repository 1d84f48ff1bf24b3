package console

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/secret"
	consents "github.com/echomind/sync/services/connector/consent"
)

// notYet is checked in the refresh token's place before anybody is asked for a consent; it is never stored.
const notYet = "the refresh token of a consent that is yet to come"

// having is how a consent is had for a configuration, which says what is asked for: the credentials beside the refresh
// token, and what waits for that.
type having func(connectorType string, config []byte) (credentials, func(context.Context) (token string, err error), error)

// run has a consent given, and stores its result in the connector that the flags name.
func (s *consent) run(c *cobra.Command, types []string, have having) error {
	if err := s.check(c); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	if s.file != "" {
		return s.write(c, have)
	}
	server, is, err := s.find.server()
	if err != nil {
		return err
	}
	if is {
		r, err := s.find.remote(server)
		if err != nil {
			return err
		}
		return connecting{s, r, c, types, have}.throughServer()
	}
	if s.connector != "" {
		return s.again(c, types, have)
	}
	return s.add(c, have)
}

// with is a configuration with the credentials of a consent in place of those that it has.
func (given credentials) with(config []byte, token string) ([]byte, error) {
	connected, err := consents.Put(config, given, token)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return connected, nil
}

// mustSeal says before anybody consents that there is no key to keep the consent with.
func (f *finder) mustSeal() error {
	ring, err := f.ring()
	if err == nil && ring == nil {
		err = secret.ErrNoKey
	}
	return err
}

// add adds a connector.
func (s *consent) add(c *cobra.Command, have having) error {
	base := []byte(s.flags.config)
	given, ask, err := have(s.flags.connectorType, base)
	if err != nil {
		return err
	}
	checked, err := given.with(base, notYet)
	if err != nil {
		return err
	}
	if err := c.Flags().Set("config", string(checked)); err != nil {
		return err
	}
	if err := s.find.mustSeal(); err != nil {
		return err
	}
	return s.find.withPool(c.Context(), func(pool *pgxpool.Pool) error {
		p, err := s.flags.newConnector(c, s.find, pool)
		if err != nil {
			return err
		}
		token, err := ask(c.Context())
		if err != nil {
			return err
		}
		if p.Config, err = given.with(base, token); err != nil {
			return err
		}
		added, err := s.find.insert(c.Context(), pool, p)
		if err != nil {
			return err
		}
		return s.showAdded(c, view(added))
	})
}

// again connects a connector that is there.
func (s *consent) again(c *cobra.Command, types []string, have having) error {
	if err := s.find.mustSeal(); err != nil {
		return err
	}
	return s.find.withPool(c.Context(), func(pool *pgxpool.Pool) error {
		id, err := connectorID(c.Context(), pool, s.connector)
		if err != nil {
			return err
		}
		existing, err := connectorByID(c.Context(), pool, id)
		if err != nil {
			return err
		}
		if err := s.checkType(c, id, existing.Type, types); err != nil {
			return err
		}
		given, ask, err := have(existing.Type, existing.Config)
		if err != nil {
			return err
		}
		reconnect := func(token string) func(*dbgen.AddConnectorParams) error {
			return func(p *dbgen.AddConnectorParams) (err error) {
				if p.Config, err = given.with(p.Config, token); err != nil {
					return err
				}
				p.By = person()
				return s.flags.checkSource(*p)
			}
		}
		if err := reconnect(notYet)(&dbgen.AddConnectorParams{Type: existing.Type, Config: existing.Config}); err != nil {
			return err
		}
		token, err := ask(c.Context())
		if err != nil {
			return err
		}
		changed, err := change(c.Context(), pool, id, func(p *dbgen.AddConnectorParams) error {
			if err := reconnect(token)(p); err != nil {
				return err
			}
			return s.find.seal(id, p)
		})
		if err != nil {
			return err
		}
		return s.showAgain(c, view(changed))
	})
}

// written is what programs are shown of a file with credentials.
type written struct {
	File string `json:"file"`
	Type string `json:"type"`
}

// write writes a file. It is made before anybody consents: a folder that cannot be written would cost the consent.
func (s *consent) write(c *cobra.Command, have having) (err error) {
	base := []byte(s.flags.config)
	given, ask, err := have(s.flags.connectorType, base)
	if err != nil {
		return err
	}
	checked, err := given.with(base, notYet)
	if err != nil {
		return err
	}
	if err := s.flags.checkSource(dbgen.AddConnectorParams{Type: s.flags.connectorType, Config: checked}); err != nil {
		return err
	}
	file, err := os.OpenFile(s.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return usagef("--file %q: it is there already; name another", s.file)
	}
	if err != nil {
		return usagef("--file %q: %v", s.file, err)
	}
	kept := false
	defer func() {
		if !kept {
			_ = os.Remove(s.file)
		}
	}()
	token, err := ask(c.Context())
	if err == nil {
		var config []byte
		if config, err = given.with(base, token); err == nil {
			_, err = file.Write(append(config, '\n'))
		}
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	kept = true
	return s.out.show(c.OutOrStdout(), written{s.file, s.flags.connectorType}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s has the credentials, readable by you alone; delete it after\n  echomind connectors add --name NAME --type %s --user N --config @%s\n",
			printable(s.file), s.flags.connectorType, printable(s.file))
		return err
	})
}
