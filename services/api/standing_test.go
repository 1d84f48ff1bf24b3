package api_test

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// standing is somebody, as user 7.
type standing struct {
	role           identity.Role
	member, leader bool
}

// something is a connector with an open run.
type something struct {
	identity.Ownership
	id  int32
	run uuid.UUID
}

// typeOf is a type that a connector of an ownership may have.
func typeOf(of identity.Ownership) string {
	switch {
	case of.Scope == "system":
		return "tidy"
	case of.System:
		return "word_count"
	}
	return "file"
}

// something makes a connector that waits for a worker.
func (w *world) something(of identity.Ownership) something {
	w.Helper()
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope, scope_id, config)
		VALUES ('x', $1, nullif($2, 0), $3, nullif($4, ''), CASE WHEN $1 = 'file' THEN '{"url": "upload:"}'::jsonb ELSE '{}' END) RETURNING id`,
		typeOf(of), of.UserID, of.Scope, of.GroupID)
	w.exec(`SELECT moves.trigger_sync($1)`, id)
	return something{of, id, movestest.Claim(w, w.conn, id)}
}

// try asks for an operation, and returns the status; 0 of what is about no connector.
func (c caller) try(operation identity.Operation, on something) int {
	c.Helper()
	path := fmt.Sprintf("/connectors/%d", on.id)
	switch operation {
	case identity.GetConnector:
		return c.do("GET", path, nil).status
	case identity.ConnectorRuns:
		return c.do("GET", path+"/runs", nil).status
	case identity.ConnectorStatus:
		return c.do("GET", path+"/status", nil).status
	case identity.WhyConnector:
		return c.do("GET", path+"/why", nil).status
	case identity.PreviewSchedule:
		return c.do("GET", path+"/schedule/preview", nil).status
	case identity.ListDocuments:
		return c.do("GET", path+"/documents", nil).status
	case identity.FailedDocuments:
		return c.do("GET", path+"/documents/failed", nil).status
	case identity.ListFiles:
		return c.do("GET", path+"/files", nil).status
	case identity.GetFile, identity.UploadFiles, identity.PutFile, identity.DeleteFile:
		if on.System { // no job has files
			return 0
		}
		return c.tryFile(operation, on)
	case identity.UpdateConnector:
		return c.do("PATCH", path, map[string]any{"name": "y"}, "If-Match", "*").status
	case identity.DeleteConnector:
		return c.do("DELETE", path, nil, "If-Match", "*").status
	case identity.SyncConnector:
		return c.do("POST", path+"/sync", nil).status
	case identity.EnableConnector:
		return c.do("POST", path+"/enable", nil).status
	case identity.DisableConnector:
		return c.do("POST", path+"/disable", nil).status
	case identity.BeginConsent:
		return c.do("POST", path+"/consents", nil).status
	case identity.MakeBadge:
		return c.do("POST", path+"/badge", nil).status
	case identity.RevokeBadge:
		return c.do("POST", path+"/badge/revoke", nil).status
	case identity.GetRun:
		return c.do("GET", "/runs/"+on.run.String(), nil).status
	case identity.WatchRun:
		return c.do("GET", "/runs/"+on.run.String()+"/events", nil).status
	case identity.CancelRun:
		return c.do("POST", "/runs/"+on.run.String()+"/cancel", nil).status
	case identity.GetScheduledJob, identity.UpdateScheduledJob, identity.EnableScheduledJob, identity.DisableScheduledJob, identity.TriggerScheduledJob, identity.ScheduledJobHistory:
		if on.System { // no source is found by its name
			return c.tryJob(operation)
		}
	case identity.CreateConnector:
		body := map[string]any{"name": "new", "type": typeOf(on.Ownership), "user_id": on.UserID, "scope": on.Scope, "refresh_freq_minutes": nil}
		if on.Scope == "system" { // there is one of its type
			c.exec(`DELETE FROM connectors`)
			delete(body, "user_id")
		}
		if on.GroupID != "" {
			body["scope_id"] = on.GroupID
		}
		return c.do("POST", "/connectors", body).status
	}
	return 0
}

// tryFile asks for an operation on a file that is there, or is new.
func (c caller) tryFile(operation identity.Operation, on something) int {
	c.Helper()
	path := fmt.Sprintf("/connectors/%d/files", on.id)
	switch operation {
	case identity.UploadFiles:
		return c.upload(on.id, "a.md", "# Zebras").status
	case identity.PutFile:
		return c.do("PUT", path+"/a.md", "# Zebras").status
	}
	c.exec(`WITH p AS (INSERT INTO upload_places (connector_id, user_id, files, bytes) VALUES ($1, $2, 1, 1) ON CONFLICT (connector_id) DO UPDATE SET files = 1 RETURNING id)
		INSERT INTO uploaded_files (place, name, object, bytes, sha256, uploaded_by) SELECT p.id, 'b.md', gen_random_uuid(), 1, sha256('x'), 'test' FROM p ON CONFLICT DO NOTHING`, on.id, on.UserID)
	if operation == identity.DeleteFile {
		return c.do("DELETE", path+"/b.md", nil, "If-Match", "*").status
	}
	return c.do("GET", path+"/b.md", nil).status
}

// tryJob asks for an operation on the job that is called x.
func (c caller) tryJob(operation identity.Operation) int {
	c.Helper()
	const path = "/admin/scheduled-jobs/x"
	switch operation {
	case identity.UpdateScheduledJob:
		return c.do("PATCH", path, map[string]any{"name": "y"}, "If-Match", "*").status
	case identity.EnableScheduledJob:
		return c.do("POST", path+"/enable", nil).status
	case identity.DisableScheduledJob:
		return c.do("POST", path+"/disable", nil).status
	case identity.TriggerScheduledJob:
		return c.do("POST", path+"/trigger", nil).status
	case identity.ScheduledJobHistory:
		return c.do("GET", path+"/history", nil).status
	}
	return c.do("GET", path, nil).status
}

// expected is what the table of rules, and of ownership, says.
func expected(who identity.Who, operation identity.Operation, of identity.Ownership) int {
	done := map[identity.Operation]int{identity.CreateConnector: 201, identity.MakeBadge: 201, identity.DeleteConnector: 204, identity.SyncConnector: 202, identity.TriggerScheduledJob: 202,
		identity.UploadFiles: 202, identity.PutFile: 201, identity.DeleteFile: 202, identity.BeginConsent: 409}[operation]
	if done == 0 {
		done = http.StatusOK
	}
	switch right := identity.RuleOf(operation).Right; {
	case right == identity.ToCreate && !who.Creates(of):
		return http.StatusForbidden
	case right != identity.ToCreate && !who.Sees(of):
		return http.StatusNotFound
	case right == identity.ToChange && !who.Changes(of):
		return http.StatusForbidden
	}
	return done
}
