package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/client"
)

// consentLook is the time between two looks at a consent that a server has asked for.
const consentLook = time.Second

// connecting is what a command that connects through a server is told.
type connecting struct {
	*consent
	r     *remote
	c     *cobra.Command
	types []string
	have  having
}

// ownApplication says whether the flags name the application that asks; the server's own asks elsewhere.
func (s connecting) ownApplication() bool {
	return s.c.Flags().Changed("client-file") || s.c.Flags().Changed("client-id")
}

// checkFlags refuses flags of an application of one's own where the server's asks.
func (s connecting) checkFlags() error {
	if s.ownApplication() {
		return nil
	}
	for _, flag := range []string{"port", "browser"} {
		if given := s.c.Flags().Lookup(flag); given != nil && given.Changed {
			return usagef("--%s: goes with an application of your own; through a server its own asks, and the browser comes back to the server", flag)
		}
	}
	if s.c.Flags().Changed("tenant") && s.connector != "" {
		return usagef("--tenant: goes with --client-id; the server asks in the directory of the connector's tenant_id")
	}
	return nil
}

// addThrough adds a connector through a server, and connects it.
func (s connecting) addThrough() (added connector, err error) {
	if s.ownApplication() {
		return s.addOwn()
	}
	config := []byte(s.flags.config)
	if tenant := s.c.Flags().Lookup("tenant"); tenant != nil && tenant.Changed {
		if config, err = withField(config, "tenant_id", tenant.Value.String()); err != nil {
			return added, err
		}
	}
	if err := s.c.Flags().Set("config", string(config)); err != nil {
		return added, err
	}
	s.flags.unchecked = true // it has no credentials yet
	if added, err = s.r.add(s.c, s.flags); err != nil {
		return added, err
	}
	if err := s.asked(added.ID); err != nil {
		return added, fmt.Errorf("%w; connector %d is added, and `%s --connector %[2]d` connects it", err, added.ID, s.c.CommandPath())
	}
	again, _, err := s.r.connector(s.c.Context(), added.ID)
	return again.bare(), err
}

// withField is a configuration with one more field.
func withField(config []byte, name, value string) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &fields); err != nil {
			return nil, usagef("--config: must be a JSON object: %v", err)
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	fields[name] = text
	return json.Marshal(fields)
}

// addOwn has a consent by one's own application, and adds a connector with what it leaves.
func (s connecting) addOwn() (none connector, _ error) {
	base := []byte(s.flags.config)
	given, ask, err := s.have(s.flags.connectorType, base)
	if err != nil {
		return none, err
	}
	checked, err := given.with(base, notYet)
	if err == nil {
		err = s.flags.checkSource(dbgen.AddConnectorParams{Type: s.flags.connectorType, Config: checked})
	}
	if err != nil {
		return none, err
	}
	if _, err := s.r.api.MeWithResponse(s.c.Context()); err != nil { // before anybody is asked for a consent
		return none, fmt.Errorf("ask the server who you are: %w", err)
	}
	token, err := ask(s.c.Context())
	if err != nil {
		return none, err
	}
	config, err := given.with(base, token)
	if err == nil {
		err = s.c.Flags().Set("config", string(config))
	}
	if err != nil {
		return none, err
	}
	return s.r.add(s.c, s.flags)
}

// againThrough connects a connector of a server again.
func (s connecting) againThrough() (none connector, _ error) {
	ctx := s.c.Context()
	id, err := s.r.connectorID(ctx, s.connector)
	if err != nil {
		return none, err
	}
	existing, _, err := s.r.connector(ctx, id)
	if err != nil {
		return none, err
	}
	if err := s.checkType(s.c, id, existing.Type, s.types); err != nil {
		return none, err
	}
	if s.ownApplication() {
		err = s.againOwn(existing)
	} else {
		err = s.asked(id)
	}
	if err != nil {
		return none, err
	}
	changed, _, err := s.r.connector(ctx, id)
	return changed.bare(), err
}

// checkType refuses a connector whose type is not what the command connects.
func (s *consent) checkType(c *cobra.Command, id int32, connectorType string, types []string) error {
	if !slices.Contains(types, connectorType) {
		return fmt.Errorf("--connector %d: it is of type %s, and this connects %s", id, connectorType, strings.Join(types, " and "))
	}
	if c.Flags().Changed("type") && connectorType != s.flags.connectorType {
		return fmt.Errorf("--type %s: connector %d is of type %s; leave --type out", s.flags.connectorType, id, connectorType)
	}
	return nil
}

// againOwn has a consent by one's own application, and gives the connector what that leaves.
func (s connecting) againOwn(existing connector) error {
	given, ask, err := s.have(existing.Type, existing.Config)
	if err != nil {
		return err
	}
	checked, err := given.with(existing.Config, notYet)
	if err == nil {
		err = s.flags.checkSource(dbgen.AddConnectorParams{Type: existing.Type, Config: checked})
	}
	if err != nil {
		return err
	}
	token, err := ask(s.c.Context())
	if err != nil {
		return err
	}
	now, version, err := s.r.connector(s.c.Context(), existing.ID)
	if err != nil {
		return err
	}
	config, err := given.with(now.Config, token)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]json.RawMessage{"config": config})
	if err != nil {
		return err
	}
	_, err = s.r.api.ConnectorsUpdateWithBodyWithResponse(s.c.Context(), existing.ID, &client.ConnectorsUpdateParams{IfMatch: &version}, jsonBody, bytes.NewReader(body))
	if err != nil {
		return connectorError(existing.ID, "update the connector", err)
	}
	return nil
}

// asked has the server ask for a consent for a connector, and waits for how it ends.
func (s connecting) asked(id int32) error {
	ctx := s.c.Context()
	answer, err := s.r.api.ConnectorsConsentsBeginWithResponse(ctx, id)
	if err != nil {
		return connectorError(id, "ask for a consent", err)
	}
	begun, err := readAs[client.BegunConsentBody](answer.Body)
	if err == nil {
		err = s.r.is(begun.ID > 0 && begun.Address != "")
	}
	if err != nil {
		return err
	}
	err = s.say(s.c.ErrOrStderr(), "Open this address in a browser in which you are signed in at %s, and consent:\n\n  %s\n", printable(s.r.server.URL), printable(begun.Address))
	if err != nil {
		return err
	}
	err = deadline.Do(ctx, "connect.consent", s.timeout, func(ctx context.Context) error { return s.r.ended(ctx, begun.ID) })
	var late *deadline.Error
	if errors.As(err, &late) && late.Name == "connect.consent" {
		return fmt.Errorf("%w; nobody has consented, and nothing is connected", err)
	}
	return err
}

// ended waits for the end of a consent.
func (r *remote) ended(ctx context.Context, id int32) error {
	for {
		answer, err := patiently(ctx, func() (*client.ConsentsGetResponse, error) { return r.api.ConsentsGetWithResponse(ctx, id) })
		if err != nil {
			return fmt.Errorf("ask how the consent stands: %w", err)
		}
		now, err := readAs[client.Consent](answer.Body)
		if err == nil {
			err = r.is(now.ID == id)
		}
		switch {
		case err != nil:
			return err
		case now.State == "connected":
			return nil
		case now.Problem != nil:
			return errors.New(*now.Problem)
		case now.State != "waiting":
			return errors.New("nobody has consented in time, and nothing is connected")
		}
		if err := repeat.Sleep(ctx, consentLook); err != nil {
			return err
		}
	}
}

// throughServer has a consent given through a server, and says what came of it.
func (s connecting) throughServer() error {
	if err := s.checkFlags(); err != nil {
		return err
	}
	if s.connector != "" {
		changed, err := s.againThrough()
		if err != nil {
			return s.r.said(err)
		}
		return s.showAgain(s.c, changed)
	}
	added, err := s.addThrough()
	if err != nil {
		return s.r.said(err)
	}
	return s.showAdded(s.c, added)
}

func (s *consent) showAdded(c *cobra.Command, added connector) error {
	return s.out.show(c.OutOrStdout(), added, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "connector %d is connected and added; `echomind connectors trigger %d --wait` syncs it, and shows how\n", added.ID, added.ID)
		return err
	})
}

func (s *consent) showAgain(c *cobra.Command, changed connector) error {
	return s.out.show(c.OutOrStdout(), changed, func(w io.Writer) error {
		text := fmt.Sprintf("connector %d is connected again; it is %s, and everything is fetched again", changed.ID, changed.Status)
		if changed.Status == disabled {
			text = fmt.Sprintf("connector %d is connected again; it is DISABLED until `echomind connectors enable %d`", changed.ID, changed.ID)
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
}
