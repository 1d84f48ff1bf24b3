package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/sdk/client"
)

// add adds the connector that the flags describe.
func (r *remote) add(c *cobra.Command, flags *connectorFlags) (none connector, _ error) {
	if err := flags.checkSource(dbgen.AddConnectorParams{Type: flags.connectorType, Config: []byte(flags.config)}); err != nil {
		return none, err
	}
	fields, err := flags.fields(c, connector{Scope: "user"})
	if err != nil {
		return none, err
	}
	if err := r.runAfter(c.Context(), &flags.chain, nil, fields); err != nil {
		return none, err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return none, err
	}
	answer, err := r.api.ConnectorsCreateWithBodyWithResponse(c.Context(), &client.ConnectorsCreateParams{}, "application/json", bytes.NewReader(body))
	if err != nil {
		return none, fmt.Errorf("add the connector: %w", err)
	}
	added, err := readAs[connector](answer.Body)
	if err == nil {
		err = r.is(added.ID > 0)
	}
	return added.asShown().bare(), err
}

// update changes what the flags give of a connector.
func (r *remote) update(c *cobra.Command, named string, flags *connectorFlags) (none connector, _ error) {
	id, err := r.connectorID(c.Context(), named)
	if err != nil {
		return none, err
	}
	if err := flags.checkSchedule(c, id); err != nil {
		return none, err
	}
	old, version, err := r.connector(c.Context(), id)
	if err != nil {
		return none, err
	}
	if err := flags.checkShown(c, old); err != nil {
		return none, err
	}
	fields, err := flags.fields(c, old)
	if err != nil {
		return none, err
	}
	match := "*"
	if flags.chain.given() {
		match = version // it is written as a whole
	}
	if err := r.runAfter(c.Context(), &flags.chain, old.RunAfter, fields); err != nil {
		return none, err
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return none, err
	}
	answer, err := r.api.ConnectorsUpdateWithBodyWithResponse(c.Context(), id, &client.ConnectorsUpdateParams{IfMatch: &match}, "application/json", bytes.NewReader(body))
	if err != nil {
		return none, connectorError(id, "update the connector", err)
	}
	updated, err := readAs[connector](answer.Body)
	if err == nil {
		err = r.is(updated.ID == id)
	}
	return updated.asShown().bare(), err
}

// checkShown is checkSource of what a connector becomes. What stands is shown without its secrets, and is checked where it has none.
func (f *connectorFlags) checkShown(c *cobra.Command, old connector) error {
	p := dbgen.AddConnectorParams{Type: old.Type, Config: old.Config}
	config, kind := c.Flags().Changed("config"), c.Flags().Changed("type")
	if kind {
		p.Type = f.connectorType
	}
	var shown map[string]any
	switch {
	case config:
		p.Config = []byte(f.config)
	case !kind: // what stands may be renamed
		return nil
	case json.Unmarshal(old.Config, &shown) != nil || masks.Masked(shown, "config") != "" && !f.unchecked:
		return usagef("--type: the configuration has secrets, which a server does not show, and cannot be checked for type %s; give --config as well, or --no-config-check", p.Type)
	}
	return f.checkSource(p)
}

// fields are what the flags give of a connector, by the names of the API; run_after is not among them.
func (f *connectorFlags) fields(c *cobra.Command, of connector) (map[string]any, error) {
	p := dbgen.AddConnectorParams{Scope: of.Scope, ScopeID: of.ScopeID}
	f.apply(c, &p)
	if err := f.checkScope(c, &p); err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for flag, of := range map[string]struct {
		field string
		value any
	}{
		"name": {"name", p.Name}, "type": {"type", p.Type}, "user": {"user_id", p.UserID}, "config": {"config", json.RawMessage(p.Config)}, "scope": {"scope", p.Scope},
		"scope-id": {"scope_id", p.ScopeID}, "now": {"run_at_once", p.RunAtOnce}, "time-zone": {"time_zone", p.TimeZone}, "dst-gap": {"dst_gap", p.DstGap},
		"dst-overlap": {"dst_overlap", p.DstOverlap}, "spread": {"spread_percent", p.SpreadPercent}, "deadline": {"deadline_minutes", p.DeadlineMinutes},
		"overlap": {"overlap", p.Overlap}, "once-per": {"once_per", p.OncePer}, "catch-up": {"catch_up", p.CatchUp}, "catch-up-most": {"catch_up_most", p.CatchUpMost},
		"catch-up-window": {"catch_up_minutes", p.CatchUpMinutes}, "fresh-within": {"fresh_within_minutes", p.FreshWithinMinutes}, "calendar": {"calendar", p.Calendar},
		"calendar-use": {"calendar_use", p.CalendarUse}, "condition": {"condition", p.Condition}, keysFlagName: {"concurrency_keys", p.ConcurrencyKeys},
		"max-retries": {"max_retries", p.MaxRetries}, "deletion-guard": {"deletion_guard", p.DeletionGuard},
	} {
		if c.Flags().Changed(flag) {
			fields[of.field] = of.value
		}
	}
	if c.Flags().Changed("refresh") || c.Flags().Changed("cron") {
		fields["refresh_freq_minutes"], fields["schedule_cron"] = p.RefreshFreqMinutes, p.ScheduleCron
	}
	if c.Flags().Changed("scope") {
		fields["scope_id"] = p.ScopeID
	}
	return fields, nil
}

// runAfter puts whom a connector runs after into the fields of a change, where the flags say something of it; what they do not say stays.
func (r *remote) runAfter(ctx context.Context, f *chainFlags, existing []upstream, fields map[string]any) error {
	if !f.given() {
		return nil
	}
	all := slices.Clone(existing)
	if f.flags.Changed("run-after") {
		texts, err := f.named()
		if err != nil {
			return err
		}
		all = []upstream{}
		for _, text := range texts {
			id, err := r.connectorID(ctx, text)
			if err != nil {
				return usagef("--run-after: %w", err)
			}
			one := upstream{ConnectorID: id, Accepts: "completed"}
			if i := slices.IndexFunc(existing, func(u upstream) bool { return u.ConnectorID == id }); i >= 0 {
				one = existing[i]
			}
			if !slices.ContainsFunc(all, func(u upstream) bool { return u.ConnectorID == id }) {
				all = append(all, one)
			}
		}
	}
	if len(all) == 0 && f.runAfter == none && !f.flags.Changed("run-after") {
		return usagef("--accept, --max-age, --timeout: the connector runs after nobody; give --run-after as well")
	}
	for i := range all {
		if f.flags.Changed("accept") {
			all[i].Accepts = f.accept
		}
		if f.flags.Changed("max-age") {
			all[i].MaxAgeMinutes = f.maxAge.column()
		}
		if f.flags.Changed("timeout") {
			all[i].TimeoutMinutes = f.timeout.column()
		}
	}
	fields["run_after"] = all
	return nil
}
