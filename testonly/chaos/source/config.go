// Package source is a synthetic source: everything it ever holds follows from a connector's configuration and a
// version, so that what must be stored after a sync is known exactly, however many tries died on the way.
package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// How a connector fetches.
const (
	// Delta: the source says what has changed since a version.
	Delta = "delta"
	// Listing: the source says what there is, and the worker finds out what has changed.
	Listing = "listing"
)

// What a source does to its worker.
const (
	// Fail, Permanent and Panic end a fetch halfway, with an error that passes, one that does not, and a panic.
	Fail      = "fail"
	Permanent = "permanent"
	Panic     = "panic"
	// Hang never ends a fetch.
	Hang = "hang"
	// Kill kills the process that fetches.
	Kill = "kill"
	// Unreadable hands out one document of every version as an error.
	Unreadable = "document"
	// Poison has a document that kills the process which stores it.
	Poison = "poison"
)

// Config is a connector's configuration.
type Config struct {
	// Seed decides about all content; below 2^53, as JSON numbers are.
	Seed int64 `json:"seed"`
	// Documents is how many there are in version 1.
	Documents int `json:"documents"`
	// Changes is how many of them change from one version to the next, at most.
	Changes int `json:"changes"`
	// Milliseconds is how long a fetch takes, spread over its documents.
	Milliseconds int `json:"milliseconds"`
	// Mode is Delta or Listing.
	Mode string `json:"mode"`
	// Trouble is one of the above, or empty.
	Trouble string `json:"trouble"`
	// Every is how often Fail, Permanent, Panic, Hang and Kill strike: at every so manieth version.
	Every int `json:"every"`
	// Big makes one of so many documents take several messages; 0 = as rarely as in any source.
	Big int `json:"big,omitempty"`
	// Checkpoint is after how many documents of a fetch its worker sets a checkpoint; 0 = never.
	Checkpoint int `json:"checkpoint,omitempty"`
}

// State is a connector's state.
type State struct {
	// Version is what the last completed sync has brought.
	Version int `json:"version"`
	// Done is how many documents of the next version, as Passed counts them, a checkpoint stands for.
	Done int `json:"done,omitempty"`
}

// Parse reads a configuration and says everything that is wrong with it.
func Parse(text []byte) (Config, error) {
	var c Config
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("read a synthetic configuration: %w", err)
	}
	return c, c.Validate()
}

// Validate returns every problem at once.
func (c Config) Validate() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Seed < 0 || c.Seed >= 1<<53 {
		refuse("seed %d: must be from 0 to 2^53", c.Seed)
	}
	if c.Documents < 0 || c.Changes < 0 || c.Milliseconds < 0 || c.Checkpoint < 0 || c.Big < 0 {
		refuse("documents %d, changes %d, milliseconds %d, checkpoint %d, big %d: must not be negative",
			c.Documents, c.Changes, c.Milliseconds, c.Checkpoint, c.Big)
	}
	if c.Mode != Delta && c.Mode != Listing {
		refuse("mode %q: must be %s or %s", c.Mode, Delta, Listing)
	}
	switch c.Trouble {
	case "", Unreadable, Poison:
	case Fail, Permanent, Panic, Hang, Kill:
		if c.Every < 1 {
			refuse("every %d: trouble %q needs 1 or more", c.Every, c.Trouble)
		}
	default:
		refuse("trouble %q: there is none of that name", c.Trouble)
	}
	return errors.Join(problems...)
}

// Strikes says whether the fetch of the changes after version v meets with Fail, Permanent, Panic, Hang or Kill.
func (c Config) Strikes(v int) bool {
	switch c.Trouble {
	case Fail, Permanent, Panic, Hang, Kill:
		return (v+1)%c.Every == 0
	}
	return false
}
