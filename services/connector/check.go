package connector

import (
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
		return errors.Join(strictjson.Check[googledrive.Config](config), checkCredentials(connectorType, config))
	case typeOneDrive:
		return errors.Join(strictjson.Check[onedrive.Config](config), checkCredentials(connectorType, config))
	case typeTeams:
		return errors.Join(strictjson.Check[teams.Config](config), checkCredentials(connectorType, config))
	}
	return nil
}
