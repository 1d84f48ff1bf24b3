//go:build !race

package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// forRoles has each operation under the least role that may do it, whatever it is about. A new operation must be added here.
var forRoles = map[identity.Role][]identity.Operation{
	identity.User: {
		identity.Me, identity.ListConnectors, identity.GetConnector, identity.CreateConnector, identity.UpdateConnector, identity.DeleteConnector,
		identity.SyncConnector, identity.EnableConnector, identity.DisableConnector, identity.ConnectorRuns, identity.ConnectorStatus,
		identity.WhyConnector, identity.GlanceConnectors, identity.ListQueue, identity.PreviewSchedule, identity.BeginConsent, identity.GetConsent, identity.MakeBadge, identity.RevokeBadge,
		identity.ListFiles, identity.GetFile, identity.UploadFiles, identity.PutFile, identity.DeleteFile, identity.ListDocuments,
		identity.FailedDocuments, identity.FindDocuments, identity.Search, identity.ListRuns, identity.GetRun, identity.CancelRun, identity.ListTypes,
		identity.ListTokens, identity.CreateToken, identity.RevokeToken, identity.ListAudit, identity.ListLimits, identity.GetLimit,
		identity.ListCalendars, identity.GetCalendar, identity.WatchEvents, identity.WatchRun, identity.ListBlackouts, identity.GetBlackout,
		identity.ListWebhooks, identity.GetWebhook, identity.CreateWebhook, identity.UpdateWebhook, identity.DeleteWebhook, identity.RotateWebhook,
		identity.TestWebhook, identity.ListDeliveries, identity.ReplayDelivery, identity.GetScheduledJob, identity.UpdateScheduledJob,
		identity.EnableScheduledJob, identity.DisableScheduledJob, identity.TriggerScheduledJob, identity.ScheduledJobHistory, identity.PreviewOperation,
		identity.CreateOperation, identity.ListOperations, identity.GetOperation, identity.OperationResults, identity.CancelOperation,
	},
	identity.Admin: {
		identity.ListLocks, identity.ListKeyLimits, identity.GetKeyLimit, identity.ListConditions, identity.GetCondition, identity.ListJobs,
		identity.ListScheduledJobs,
	},
	identity.Superadmin: {
		identity.PutType, identity.ListUsers, identity.ListLinks, identity.GetUser, identity.UpdateUser, identity.RemoveUser, identity.LinkUser, identity.UnlinkUser, identity.ShowStatus, identity.ReleaseLock, identity.PutLimit, identity.DeleteLimit,
		identity.PutKeyLimit, identity.DeleteKeyLimit, identity.PutCalendar, identity.ReadCalendar, identity.DeleteCalendar, identity.PutBlackout,
		identity.DeleteBlackout, identity.ListDeadLetters, identity.GetDeadLetter, identity.ReplayDeadLetter, identity.DropDeadLetter,
		identity.GroupDeadLetters, identity.ReplayDeadLetters, identity.DropDeadLetters, identity.OperateDeadLetters,
	},
}

// described is an operation as the API describes it.
type described struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name, In string
		Schema   struct{ Type, Format any }
	}
	method, path string
}

// describedOperations are all that the API has, with something in the place of each parameter of a path.
func describedOperations(t *testing.T) (all []described) {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]described
	}
	require.NoError(t, json.Unmarshal(text, &document))
	for path, methods := range document.Paths {
		for method, d := range methods {
			d.method, d.path = strings.ToUpper(method), strings.TrimPrefix(path, "/api/v1")
			for _, p := range d.Parameters {
				value := "x"
				switch {
				case p.Schema.Format == "uuid":
					value = "00000000-0000-4000-8000-000000000000"
				case p.Schema.Type == "integer":
					value = "999999"
				}
				d.path = strings.ReplaceAll(d.path, "{"+p.Name+"}", value)
			}
			if identity.Operation(d.ID) == identity.ListAudit {
				d.path += "?connector_id=999999" // the whole audit is for superadmins
			}
			all = append(all, d)
		}
	}
	return all
}

// Whose connector an operation is for is asked by TestEveryOperationIsForWhomTheTableSays; this asks of every operation for whom it is at all.
func TestEveryOperationIsForItsLeastRoleAndAboveAndForNobodyWithoutAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	least := map[identity.Operation]identity.Role{}
	for role, operations := range forRoles {
		for _, operation := range operations {
			require.Empty(t, least[operation], "%s stands twice", operation)
			least[operation] = role
		}
	}
	seen := map[identity.Operation]bool{}
	for _, d := range describedOperations(t) {
		operation := identity.Operation(d.ID)
		seen[operation] = true
		require.NotEmpty(t, least[operation], "%s has no row in forRoles", operation)
		require.Equal(t, http.StatusUnauthorized, caller{w, ""}.do(d.method, d.path, nil).status, "%s by nobody", operation)
		for _, role := range identity.Roles {
			got := w.as(7, role).do(d.method, d.path, map[string]any{}, "If-Match", "*")
			if role.AtLeast(least[operation]) {
				assert.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, "%s by %s: %s", operation, role, got.text)
			} else {
				assert.Equal(t, http.StatusForbidden, got.status, "%s by %s: %s", operation, role, got.text)
			}
		}
	}
	for _, operation := range identity.Operations() {
		require.NotEmpty(t, least[operation], "%s has no row in forRoles", operation)
		require.True(t, seen[operation], "%s is not described", operation)
	}
}
