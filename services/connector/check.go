package connector

import (
	"errors"

	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/services/connector/teams"
)

// CheckConfig returns, before anything runs, the problems that a sync would find in a connector's configuration without asking the
// source: each with its field, its value and the fix. It returns nil for a type of another service. Secrets may be sealed or not.
func CheckConfig(connectorType string, config []byte) error {
	if check := checks[connectorType]; check != nil {
		return errors.Join(check(config), checkCredentials(connectorType, config))
	}
	return nil
}

var checks = map[string]func(config []byte) error{
	typeGoogleDrive: strictjson.Check[googledrive.Config], typeOneDrive: strictjson.Check[onedrive.Config], typeTeams: strictjson.Check[teams.Config],
}
