package chunker

import (
	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/chunker/files"
)

// CheckConfig says before anything runs what a sync would say of a connector's configuration, as far as that can be
// told without the source: every problem with its field, its value and the fix. nil also for a type that is not the
// chunker's.
func CheckConfig(connectorType string, config []byte) error {
	switch connectorType {
	case "web":
		return strictjson.Check[crawl.Config](config)
	case "file":
		return strictjson.Check[files.Config](config)
	}
	return nil
}
