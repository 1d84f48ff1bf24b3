package config

import (
	"errors"
	"fmt"
)

// Reading is how content is read: in child processes, which may die of it.
type Reading struct {
	// ReadChildren is how many child processes read content at most; 0 = as many as WORKER_SLOTS. They are started when
	// they are needed, and users who need them at once have as many as each other.
	ReadChildren int `env:"READ_CHILDREN" envDefault:"0"`
	// ReadMemoryMB is the memory that one document may take while it is read, in MB of 2^20 bytes. A document that needs
	// more fails, and nothing else does. The container needs room for all children at once, about 20 MB more for each.
	ReadMemoryMB int `env:"READ_MEMORY_MB" envDefault:"256"`
	// ReadContentMB is the memory for documents that the service itself has in hand, from their download until they are
	// sent, in MB of 2^20 bytes. Others wait meanwhile. A user's syncs have half of it at most. Documents of up to 64 KiB
	// do not wait; what is made of them counts.
	ReadContentMB int `env:"READ_CONTENT_MB" envDefault:"128"`
}

// Bounds of Reading. Below the lower one an ordinary page has no room.
const (
	minReadMemoryMB = 64
	maxReadMemoryMB = 1023
	// minReadContentMB has room for a page of 8 MiB for each of two users.
	minReadContentMB = 96
	// bareChildMB is what a child has before it reads anything.
	bareChildMB     = 20
	maxReadChildren = 1024
)

// Validate returns every problem at once.
func (r Reading) Validate() error {
	err := errors.Join(AtLeast("READ_CHILDREN", r.ReadChildren, 0), AtLeast("READ_MEMORY_MB", r.ReadMemoryMB, minReadMemoryMB),
		AtLeast("READ_CONTENT_MB", r.ReadContentMB, minReadContentMB))
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

// Content is how many bytes of memory documents may take here.
func (r Reading) Content() int64 { return int64(r.ReadContentMB) << 20 }

// ForChildren is how many bytes all children may take, for a service of so many slots.
func (r Reading) ForChildren(slots int) int64 {
	return int64(r.Children(slots)) * int64(r.ReadMemoryMB+bareChildMB) << 20
}
