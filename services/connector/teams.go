package connector

import (
	"context"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/teams"
)

// teams is the handler of connector.sync.teams.
func (s *service) teams(ctx context.Context, run *worker.Run) error {
	var cfg teams.Config
	if err := run.Config(&cfg); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return worker.Permanent(err)
	}
	account, err := s.openAccount(ctx, run, s.microsoft(typeTeams, s.config.teams(), cfg.Credentials, target{"team_id", "group", cfg.Team}))
	if err != nil {
		return err
	}
	defer account.close()
	result, err := teams.Sync(ctx, cfg, teams.Options{
		Connector: run.Request().ConnectorId, Endpoint: s.config.MicrosoftGraphURL, API: account.api, Plain: account.plain,
		Extract: s.textReader(run), Chunk: s.config.chunks(), Room: s.room.ForOwner(ownerOf(run)), Pause: brokenOffPause, Clean: account.cleaner.Text,
	}, run)
	err = account.cleaner.Error(err)
	run.Log().Info("channel read", "pages", result.Pages, "threads", result.Threads, "put", result.Put,
		"touched", result.Touched, "unchanged", result.Unchanged, "failed", result.Failed, "deleted", result.Deleted,
		"restarted", result.Restarted, "err", err)
	return postponed(err)
}
