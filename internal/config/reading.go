package config

import (
	"errors"
	"fmt"
)

// Reading is how content is read: in child processes, which may die of it.
type Reading struct {
	// ReadChildren is how many child processes read content at most; 0 = as many as WORKER_SLOTS. They are started when
	// they are needed, and one sync never has more than half of them.
	ReadChildren int `env:"READ_CHILDREN" envDefault:"0"`
	// ReadMemoryMB is the memory that one document may take while it is read, in MB of 2^20 bytes. A document that needs
	// more fails, and nothing else does. The container needs room for all children at once, about 20 MB more for each.
	ReadMemoryMB int `env:"READ_MEMORY_MB" envDefault:"256"`
}

// Bounds of Reading. Below the lower one an ordinary page has no room.
const (
	minReadMemoryMB = 64
	maxReadMemoryMB = 1023
	maxReadChildren = 1024
)

// Validate returns every problem at once.
func (r Reading) Validate() error {
	err := errors.Join(AtLeast("READ_CHILDREN", r.ReadChildren, 0), AtLeast("READ_MEMORY_MB", r.ReadMemoryMB, minReadMemoryMB))
	if r.ReadChildren > maxReadChildren {
		err = errors.Join(err, fmt.Errorf("READ_CHILDREN=%d: must be at most %d", r.ReadChildren, maxReadChildren))
	}
	if r.ReadMemoryMB > maxReadMemoryMB {
		err = errors.Join(err, fmt.Errorf("READ_MEMORY_MB=%d: must be at most %d", r.ReadMemoryMB, maxReadMemoryMB))
	}
	return err
}

// Children is how many there are at most, for a service of so many slots.
func (r Reading) Children(slots int) int {
	if r.ReadChildren > 0 {
		return r.ReadChildren
	}
	return slots
}
