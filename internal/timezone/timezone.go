// Package timezone loads the time zones that schedules and calendars may name.
package timezone

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// MaxLength is how many bytes a name may have.
const MaxLength = 64

// Load loads a zone by its name in the IANA time zone database. It refuses names that the files of a machine add to those: what localtime is differs from one
// machine to the next, and zones below right/ count leap seconds.
func Load(name string) (*time.Location, error) {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "", len(name) > MaxLength, path.Clean(name) != name:
	case first == "Local", first == "localtime", first == "posixrules", first == "posix", first == "right":
	default:
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	return nil, fmt.Errorf("%.*q is no time zone; give an IANA name such as Europe/Berlin", MaxLength, name)
}
