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
	switch connectorType {
	case typeGoogleDrive:
		return errors.Join(strictjson.Check[googledrive.Config](config), checkCredentials(connectorType, config))
	case typeOneDrive:
		return errors.Join(strictjson.Check[onedrive.Config](config), checkCredentials(connectorType, config))
	case typeTeams:
		return errors.Join(strictjson.Check[teams.Config](config), checkCredentials(connectorType, config))
	}
	return nil
}
