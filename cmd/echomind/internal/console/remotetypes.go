package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/echomind/sync/sdk/client"
)

// typeForm is that of types, which the table checks where there is no server.
var typeForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// versioned is a type as a server shows it.
type versioned struct {
	typeView
	Version string `json:"version"`
}

func (r *remote) types(ctx context.Context) ([]typeView, error) {
	found, err := r.versionedTypes(ctx)
	views := make([]typeView, len(found))
	for i, t := range found {
		views[i] = t.typeView
	}
	return views, err
}

func (r *remote) versionedTypes(ctx context.Context) ([]versioned, error) {
	answer, err := r.api.TypesListWithResponse(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the connector types: %w", err)
	}
	list, err := readAs[struct{ Types []versioned }](answer.Body)
	if err == nil {
		err = r.is(list.Types != nil)
	}
	return list.Types, err
}

// setType adds a type, or changes what is given of one: of what stands it writes the version that it has seen.
func (r *remote) setType(ctx context.Context, given typeGiven) (v typeView, _ error) {
	p := given.SetConnectorTypeParams
	if !typeForm.MatchString(p.Name) {
		return v, wrongOfType("connector_types_name_form", p)
	}
	found, err := r.versionedTypes(ctx)
	if err != nil {
		return v, err
	}
	v, match := typeView{Name: p.Name, Kind: p.Kind, System: given.system}, (*string)(nil)
	if given.system {
		v.Kind, v.MaxConcurrentSyncs = kindJob, new(int32(0))
	}
	if i := slices.IndexFunc(found, func(t versioned) bool { return t.Name == p.Name }); i >= 0 {
		v, match = found[i].typeView, new(`"`+found[i].Version+`"`)
		switch {
		case given.setsKind && v.Kind != p.Kind:
			return v, staysOfKind(p.Name, v.Kind)
		case given.system && !v.System:
			return v, staysNoSystemType(p.Name)
		}
	}
	if p.DefaultRefreshMinutes != nil {
		v.DefaultRefreshMinutes = p.DefaultRefreshMinutes
	}
	if p.MaxConcurrentSyncs != nil {
		v.MaxConcurrentSyncs = p.MaxConcurrentSyncs
	}
	if p.SetsKeys {
		v.ConcurrencyKeys = p.ConcurrencyKeys
	}
	if given.setsProvider {
		v.Provider = given.provider
	}
	return r.putType(ctx, given, v, match)
}

func (r *remote) putType(ctx context.Context, given typeGiven, v typeView, match *string) (written typeView, _ error) {
	body, err := json.Marshal(map[string]any{
		"kind": v.Kind, "system": v.System, "default_refresh_minutes": v.DefaultRefreshMinutes, "max_concurrent_syncs": v.MaxConcurrentSyncs,
		"concurrency_keys": v.ConcurrencyKeys, "provider": v.Provider,
	})
	if err != nil {
		return written, err
	}
	answer, err := r.api.TypesPutWithBodyWithResponse(ctx, v.Name, &client.TypesPutParams{IfMatch: match}, jsonBody, bytes.NewReader(body))
	for _, field := range wrongFields(err) {
		if wrong := wrongFieldOfType(field.Field, given, v.System); wrong != nil {
			return written, wrong
		}
	}
	var refused *client.Error
	if errors.As(err, &refused) && (refused.Status == http.StatusPreconditionFailed || refused.Status == http.StatusPreconditionRequired) {
		return written, fmt.Errorf("somebody else has changed type %s meanwhile: try again", v.Name)
	}
	if err != nil {
		return written, fmt.Errorf("add the connector type: %w", err)
	}
	if written, err = readAs[typeView](answer.Body); err == nil {
		err = r.is(written.Name == v.Name)
	}
	return written, err
}

// wrongFieldOfType says what is wrong with a type, by the field that a server does not take; nil: it says that itself.
func wrongFieldOfType(field string, given typeGiven, system bool) error {
	p := given.SetConnectorTypeParams
	switch {
	case field == "path.name":
		return wrongOfType("connector_types_name_is_the_systems", p)
	case field == "body.default_refresh_minutes" && p.DefaultRefreshMinutes != nil:
		return wrongOfType("connector_types_refresh_range", p)
	case field == "body.max_concurrent_syncs" && p.MaxConcurrentSyncs != nil && system && *p.MaxConcurrentSyncs >= 0:
		return wrongOfType("connector_types_system_has_no_cap", p)
	case field == "body.max_concurrent_syncs" && p.MaxConcurrentSyncs != nil:
		return wrongOfType("connector_types_cap_range", p)
	case field == "body.concurrency_keys" && system:
		return wrongOfType("connector_types_system_has_no_keys", p)
	case field == "body.provider" && given.setsProvider:
		return wrongProvider(given.provider)
	}
	return nil
}
