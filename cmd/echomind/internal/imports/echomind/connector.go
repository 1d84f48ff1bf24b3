package echomind

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
)

// plainWord is a word as the columns hold it: lower case, or, as an earlier version wrote it by mistake, the name of the protobuf value.
func plainWord(text, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(text, prefix))
}

func (s source) row() imports.Row {
	row := imports.Row{Where: fmt.Sprintf("connector %d", s.ID), Key: fmt.Sprintf("connector:%d", s.ID), Name: s.Name,
		Type: plainWord(s.Type, "CONNECTOR_TYPE_")}
	if runes := []rune(row.Name); len(runes) > imports.MaxName {
		row.Name = string(runes[:imports.MaxName])
		row.Note("its name is cut to %d characters", imports.MaxName)
	}
	if s.Deleted {
		row.Refuse("it is deleted there")
		return row
	}
	if s.UserID < 1 || s.UserID > math.MaxInt32 {
		row.Refuse("its user is %d", s.UserID)
	}
	row.UserID = int32(s.UserID)
	s.setScope(&row)
	s.setStatus(&row)
	switch {
	case s.Minutes == nil: // manual only, as here
	case *s.Minutes < 1 || *s.Minutes > math.MaxInt32:
		row.Refuse("its refresh_freq_minutes is %d, which has it synced without a pause there; set an interval, or null", *s.Minutes)
	default:
		minutes := int32(*s.Minutes)
		row.Minutes = &minutes
	}
	if s.ConfigBytes > imports.MaxValue {
		row.Refuse("its configuration has %d bytes; a connector's has at most %d", s.ConfigBytes, imports.MaxValue)
		return row
	}
	s.setConfig(&row)
	return row
}

func (s source) setScope(row *imports.Row) {
	row.Scope = plainWord(s.Scope, "CONNECTOR_SCOPE_")
	switch row.Scope {
	case "":
		row.Scope = "user"
	case "user", "org":
	case "group":
		if s.ScopeID == nil || *s.ScopeID == "" {
			row.Refuse("its scope is group, and scope_id names none")
			return
		}
		row.ScopeID = s.ScopeID
	case "team":
		team := "none"
		if s.TeamID != nil {
			team = fmt.Sprint(*s.TeamID)
		}
		row.Refuse("its scope is team (%s): there are no teams here; give it a group, or add it by hand", team)
	default:
		row.Refuse("its scope %q is none of user, group and org", s.Scope)
	}
}

func (s source) setStatus(row *imports.Row) {
	switch plainWord(s.Status, "CONNECTOR_STATUS_") {
	case "pending", "syncing", "active":
	case "error":
		row.Note("its last sync has failed there")
	case "disabled":
		row.Disabled = true
	default:
		row.Refuse("its status %q is none of pending, syncing, active, error and disabled", s.Status)
	}
}

// renamed are fields of configurations that are called something else here; those with an empty name are of no use: tokens that end
// within the hour, and what the code that was published never reads.
var renamed = map[string]map[string]string{
	"google_drive": {"access_token": "", "token_expires_at": "", "include_shared": ""},
	"onedrive":     {"access_token": "", "token_expires_at": "", "folder_path": "folder"},
	"teams":        {"access_token": "", "token_expires_at": ""},
}

func (s source) setConfig(row *imports.Row) {
	config := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(string(s.Config)))
	decoder.UseNumber()
	if len(s.Config) > 0 {
		if err := decoder.Decode(&config); err != nil || config == nil {
			row.Refuse("its configuration is no JSON object")
			return
		}
	}
	for field, here := range renamed[row.Type] {
		value, has := config[field]
		if !has {
			continue
		}
		delete(config, field)
		if text, isText := value.(string); here == "folder" && isText {
			value = strings.Trim(text, "/")
		}
		if here != "" && value != nil && value != "" {
			config[here] = value
		} else if field == "include_shared" && value != false {
			row.Note("include_shared is left out: nothing in EchoMind reads it; here it is include_shared_drives")
		}
	}
	for field, value := range config {
		if value == nil || value == "" {
			delete(config, field)
		}
	}
	switch row.Type {
	case "onedrive":
		if config["folder_id"] != nil {
			row.Refuse("folder_id: EchoMind's documentation calls it a folder's id, its code a path, and reads neither; write folder_path there")
		}
	case "file":
		if config["url"] == nil {
			row.Refuse("its files were uploaded, and lie in EchoMind's MinIO: there is no folder to read")
		}
	case "google_drive":
		s.shareGoogle(row, config)
	}
	row.SetConfig(config)
}

// shareGoogle takes the credentials that all Google connectors of a user share, in later versions, where the connector has none of its own.
func (s source) shareGoogle(row *imports.Row, config map[string]any) {
	if config["service_account_json"] != nil {
		row.Refuse("service_account_json is a path on another machine; add it by hand, with the key as service_account")
	}
	shared := map[string]any{}
	if config["refresh_token"] != nil || len(s.Google) == 0 || json.Unmarshal(s.Google, &shared) != nil {
		return
	}
	for field, value := range shared {
		config[field] = value
	}
	row.Note("its credentials are the user's google_credentials")
}
