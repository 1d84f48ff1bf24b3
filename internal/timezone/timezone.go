// Package timezone loads the time zones that schedules and calendars may name.
package timezone

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"time"
)

const (
	// MaxLength is how many bytes a name may have.
	MaxLength = 64
	// mostKept is more than there are in the database.
	mostKept = 1000
)

// kept are zones that were loaded: a file of dates names the same one thousands of times.
var kept struct {
	sync.Mutex
	zones map[string]*time.Location
}

// Load loads a zone by its name in the IANA time zone database. It refuses names that the files of a machine add to those: what localtime is differs from one
// machine to the next, and zones below right/ count leap seconds.
func Load(name string) (*time.Location, error) {
	kept.Lock()
	defer kept.Unlock()
	if zone := kept.zones[name]; zone != nil {
		return zone, nil
	}
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "", len(name) > MaxLength, path.Clean(name) != name:
	case first == "Local", first == "localtime", first == "posixrules", first == "posix", first == "right":
	default:
		zone, err := time.LoadLocation(name)
		if err != nil {
			break
		}
		if len(kept.zones) >= mostKept || kept.zones == nil { // where names differ in their case alone there may be more
			kept.zones = map[string]*time.Location{}
		}
		kept.zones[name] = zone
		return zone, nil
	}
	return nil, fmt.Errorf("%.*q is no time zone; give an IANA name such as Europe/Berlin", MaxLength, name)
}
