package connector

import (
	"context"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/onedrive"
	"github.com/echomind/sync/services/connector/provider"
)

// oneDrive is the handler of connector.sync.onedrive.
func (s *service) oneDrive(ctx context.Context, run *worker.Run) error {
	var cfg onedrive.Config
	if err := run.Config(&cfg); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return worker.Permanent(err)
	}
	account, err := s.openAccount(ctx, run, s.microsoft(typeOneDrive, s.config.oneDrive(), cfg.Credentials, driveOf(cfg)))
	if err != nil {
		return err
	}
	defer account.close()
	result, err := onedrive.Sync(ctx, cfg, onedrive.Options{
		Connector: run.Request().ConnectorId, Endpoint: s.config.MicrosoftGraphURL, API: account.api, Plain: account.plain,
		Extract: s.textReader(run), Chunk: s.config.chunks(), Room: s.room.ForOwner(ownerOf(run)), Clean: account.cleaner.Text, Pause: brokenOffPause,
	}, run)
	err = account.cleaner.Error(err)
	run.Log().Info("drive read", "pages", result.Pages, "listed", result.Listed, "put", result.Put,
		"touched", result.Touched, "unchanged", result.Unchanged, "failed", result.Failed, "deleted", result.Deleted,
		"restarted", result.Restarted, "err", err)
	return postponed(err)
}

// microsoft is the accessRequest for Microsoft Graph.
func (s *service) microsoft(connectorType string, rate provider.Rate, account graph.Credentials, t target) accessRequest {
	return accessRequest{
		connectorType: connectorType, dialect: provider.Microsoft, endpoint: s.config.MicrosoftGraphURL, rate: rate,
		clientID: s.config.MicrosoftClientID, clientSecret: s.config.MicrosoftClientSecret,
		identity: identity{ClientID: account.ClientID, TenantID: account.TenantID}, target: t,
	}
}

// driveOf is the target of a configuration; Validate allows at most one of the fields.
func driveOf(cfg onedrive.Config) target {
	for _, t := range []target{
		{"drive_id", "drive", cfg.Drive}, {"site", "site", cfg.Site}, {"group_id", "group", cfg.Group}, {"user", "user", cfg.User},
	} {
		if t.value != "" {
			return t
		}
	}
	return target{}
}
