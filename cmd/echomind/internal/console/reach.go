package console

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/services/chunker"
)

// checkReach says at once what the stack in the data folder would say at the first sync: that it may not read this folder or
// site. A stack elsewhere leaves no word of it.
func (f *connectorFlags) checkReach(ctx context.Context, find *finder, connectorType string, config []byte) error {
	where, _, err := find.find()
	if err != nil || f.unchecked || len(where.reach) == 0 {
		return err
	}
	var reach chunker.Reach
	if err := json.Unmarshal(where.reach, &reach); err != nil {
		return fmt.Errorf("read what the running stack may read: %w", err)
	}
	if err := chunker.CheckReach(ctx, connectorType, config, reach); err != nil {
		return usagef("--config, for type %s: %s (--no-config-check takes it all the same)", connectorType, err)
	}
	return nil
}

// checkChange is checkReach for a connector that is there.
func (f *connectorFlags) checkChange(c *cobra.Command, find *finder, pool *pgxpool.Pool, id int32) error {
	if !c.Flags().Changed("config") && !c.Flags().Changed("type") {
		return nil
	}
	existing, err := connectorByID(c.Context(), pool, id)
	if err != nil {
		return err
	}
	p := dbgen.AddConnectorParams{Type: existing.Type, Config: existing.Config}
	f.apply(c, &p)
	if f.checkSource(p) != nil {
		return nil // which the change itself says
	}
	return f.checkReach(c.Context(), find, p.Type, p.Config)
}

// checkScope refuses a group's name without its scope. A change of scope drops the old group's name.
func (f *connectorFlags) checkScope(c *cobra.Command, p *dbgen.AddConnectorParams) error {
	switch {
	case p.ScopeID == nil || p.Scope == "group":
	case c.Flags().Changed("scope-id"):
		return usagef("--scope-id %q: goes with --scope group, and the scope is %s", clip(*p.ScopeID, 40), p.Scope)
	case c.Flags().Changed("scope"):
		p.ScopeID = nil
	}
	return nil
}
