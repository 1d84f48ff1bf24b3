package api

import (
	"context"
	"net/http"

	"github.com/echomind/sync/internal/identity"
)

func (a *API) jobRoutes() {
	register(a, identity.ListJobs, http.MethodGet, "/jobs", "List the runs of jobs: open ones, then ended ones, the latest first", http.StatusOK, a.listJobs)
	register(a, identity.ListScheduledJobs, http.MethodGet, "/admin/scheduled-jobs", "List the connectors that are jobs, by name", http.StatusOK, a.listScheduledJobs)
	register(a, identity.GetScheduledJob, http.MethodGet, "/admin/scheduled-jobs/{name}", "Show a job", http.StatusOK, a.getScheduledJob)
	register(a, identity.UpdateScheduledJob, http.MethodPatch, "/admin/scheduled-jobs/{name}", "Change what is given of a job", http.StatusOK, a.updateScheduledJob)
	register(a, identity.EnableScheduledJob, http.MethodPost, "/admin/scheduled-jobs/{name}/enable", "Switch a job on; its failures are forgotten", http.StatusOK, a.enableScheduledJob)
	register(a, identity.DisableScheduledJob, http.MethodPost, "/admin/scheduled-jobs/{name}/disable", "Switch a job off; a run in flight is ended", http.StatusOK, a.disableScheduledJob)
	register(a, identity.TriggerScheduledJob, http.MethodPost, "/admin/scheduled-jobs/{name}/trigger", "Run a job now", http.StatusAccepted, a.triggerScheduledJob)
	register(a, identity.ScheduledJobHistory, http.MethodGet, "/admin/scheduled-jobs/{name}/history", "Count what became of a job's slots and runs, and list these, the latest first", http.StatusOK, a.scheduledJobHistory)
}

func (a *API) listJobs(ctx context.Context, in *RunList) (*RunPage, error) {
	return a.runs(ctx, in, true)
}
