package connector

import (
	"encoding/json"
	"errors"

	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/services/connector/teams"
)

// CheckConfig says before anything runs what a sync would say of a connector's configuration, as far as that can be
// told without the source: every problem with its field, its value and the fix. nil also for a type that is not this
// service's. Secrets may be sealed or not.
func CheckConfig(connectorType string, config []byte) error {
	switch connectorType {
	case typeGoogleDrive:
		return errors.Join(strictjson.Check[googledrive.Config](config),
			given(config, errNoGoogleCredentials, "refresh_token", "service_account"))
	case typeOneDrive:
		return errors.Join(strictjson.Check[onedrive.Config](config), given(config, errNoMicrosoftCredentials, "refresh_token", "tenant_id"))
	case typeTeams:
		return errors.Join(strictjson.Check[teams.Config](config), given(config, errNoMicrosoftCredentials, "refresh_token", "tenant_id"))
	}
	return nil
}

var (
	errNoGoogleCredentials    = errors.New("no credentials: give refresh_token, or service_account")
	errNoMicrosoftCredentials = errors.New("no credentials: give refresh_token, or tenant_id with client_secret")
)

// given returns missing where none of some fields is there.
func given(config []byte, missing error, names ...string) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(config, &fields) != nil {
		return nil // which has been said
	}
	for _, name := range names {
		if value := string(fields[name]); value != "" && value != `""` && value != "null" {
			return nil
		}
	}
	return missing
}
