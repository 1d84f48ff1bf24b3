package connector

import (
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/services/connector/teams"
)

// The types that this service subscribes to.
const (
	typeGoogleDrive = consent.GoogleDrive
	typeOneDrive    = consent.OneDrive
	typeTeams       = consent.Teams
)

// secretFields are the fields that the types' Configs tag as secret.
var secretFields = map[string][]string{
	typeGoogleDrive: secret.Fields(googledrive.Config{}),
	typeOneDrive:    secret.Fields(onedrive.Config{}),
	typeTeams:       secret.Fields(teams.Config{}),
}

// SecretFields are the fields of a type's configuration that are sealed before they are stored; none of a type that
// this service does not know.
func SecretFields(connectorType string) []string { return secretFields[connectorType] }
