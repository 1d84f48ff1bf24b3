package connector

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/echomind/sync/services/connector/consent"
)

// allowSetting lists what the service's own application may read; errors point to it.
const allowSetting = "CONNECTOR_MICROSOFT_ALLOW"

// target is what a configuration names in its tenant. With the service's own application nothing else keeps a connector's author
// from everything that the application was consented for: only the service proves its identity to Microsoft.
type target struct {
	// field is its name in the configuration, kind its name in the setting.
	field, kind, value string
}

// wholeTenant stands for everything in a tenant.
const wholeTenant = "*"

var kinds = []string{"drive", "site", "group", "user"}

// allowed are the entries of the setting: tenant/kind:value, or tenant/* for everything in a tenant.
type allowed []string

// parseAllowed reads the setting, and returns every problem at once.
func parseAllowed(text string) (allowed, error) {
	var entries allowed
	var problems []error
	for _, entry := range strings.Fields(text) {
		directory, rest, _ := strings.Cut(entry, "/")
		kind, value, _ := strings.Cut(rest, ":")
		switch {
		case !consent.IsTenant(directory) || slices.Contains(notTenants, strings.ToLower(directory)):
			problems = append(problems, fmt.Errorf("%s: %q: %q is not one directory's id or domain", allowSetting, entry, directory))
		case rest != wholeTenant && (!slices.Contains(kinds, kind) || value == ""):
			problems = append(problems, fmt.Errorf("%s: %q: after the tenant write /* for everything in it, or one of /%s:…",
				allowSetting, entry, strings.Join(kinds, ":…, /")))
		default:
			entries = append(entries, entry)
		}
	}
	return entries, errors.Join(problems...)
}

// notTenants are names that stand for any directory.
var notTenants = []string{"common", "organizations", "consumers"}

// check says whether the service's own application may be used for a target in a tenant. Values are compared as they are written: a
// value that is merely spelled alike may belong to somebody else.
func (a allowed) check(directory string, t target) error {
	if slices.Contains(a, directory+"/"+wholeTenant) {
		return nil
	}
	if t.value == "" {
		return fmt.Errorf("tenant_id: %q without one of drive_id, site, group_id, user is not for this service's own application: "+
			"name what is read, or give client_id and client_secret of your own; its operator lists tenants in %s", directory, allowSetting)
	}
	entry := directory + "/" + t.kind + ":" + t.value
	if slices.Contains(a, entry) {
		return nil
	}
	return fmt.Errorf("tenant_id: %q with %s %q is not for this service's own application: give client_id and client_secret of your "+
		"own, or a refresh_token, or have its operator add %s to %s", directory, t.field, t.value, entry, allowSetting)
}
