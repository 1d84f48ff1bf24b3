package config

import "errors"

// Refresh is the default interval of new connectors, in minutes; 0 = once. A row of connector_types may set another for its
// type.
type Refresh struct {
	// Web is for type web.
	Web int32 `env:"SCHEDULER_DEFAULT_REFRESH_WEB" envDefault:"10080"`
	// Drive is for types onedrive and google_drive.
	Drive int32 `env:"SCHEDULER_DEFAULT_REFRESH_DRIVE" envDefault:"10080"`
	// Chat is for type teams.
	Chat int32 `env:"SCHEDULER_DEFAULT_REFRESH_CHAT" envDefault:"1440"`
	// File is for type file.
	File int32 `env:"SCHEDULER_DEFAULT_REFRESH_FILE" envDefault:"0"`
}

// Validate returns every problem at once.
func (r Refresh) Validate() error {
	return errors.Join(
		AtLeast("SCHEDULER_DEFAULT_REFRESH_WEB", int(r.Web), 0),
		AtLeast("SCHEDULER_DEFAULT_REFRESH_DRIVE", int(r.Drive), 0),
		AtLeast("SCHEDULER_DEFAULT_REFRESH_CHAT", int(r.Chat), 0),
		AtLeast("SCHEDULER_DEFAULT_REFRESH_FILE", int(r.File), 0),
	)
}

// Of returns the default of a type; false for a type that another team added.
func (r Refresh) Of(connectorType string) (minutes int32, known bool) {
	switch connectorType {
	case "web":
		return r.Web, true
	case "onedrive", "google_drive":
		return r.Drive, true
	case "teams":
		return r.Chat, true
	case "file":
		return r.File, true
	}
	return 0, false
}
