package connector

import (
	"context"

	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/services/connector/provider"
)

// googleDrive is the handler of connector.sync.google_drive.
func (s *service) googleDrive(ctx context.Context, run *worker.Run) error {
	var cfg googledrive.Config
	if err := run.Config(&cfg); err != nil {
		return err
	}
	account, err := s.openAccount(ctx, run, accessRequest{
		connectorType: typeGoogleDrive, dialect: provider.Google, endpoint: s.config.GoogleDriveURL, rate: s.config.google(),
		clientID: s.config.GoogleClientID, clientSecret: s.config.GoogleClientSecret,
		identity: identity{ClientID: cfg.ClientID, TenantID: cfg.TenantID, Subject: cfg.Subject},
	})
	if err != nil {
		return err
	}
	defer account.close()
	result, err := googledrive.Sync(ctx, cfg, googledrive.Options{
		Connector: run.Request().ConnectorId, Endpoint: s.config.GoogleDriveURL, Client: account.api,
		OwnerAlone: run.Request().Scope == publicpb.ConnectorScope_CONNECTOR_SCOPE_USER,
		Extract:    s.textReader(run), Chunk: s.config.chunks(), Room: s.room.ForOwner(ownerOf(run)), Pause: brokenOffPause,
		Clean: account.cleaner.Text,
	}, run)
	err = account.cleaner.Error(err)
	run.Log().Info("drive read", "pages", result.Pages, "listed", result.Listed, "calls", result.Calls, "put", result.Put,
		"touched", result.Touched, "unchanged", result.Unchanged, "failed", result.Failed, "deleted", result.Deleted,
		"restarted", result.Restarted, "err", err)
	return postponed(err)
}
