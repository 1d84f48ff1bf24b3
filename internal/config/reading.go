package config

import (
	"errors"
	"fmt"
)

// Reading is how content is read: in child processes, which may die of it.
type Reading struct {
	// ReadChildren is the largest number of child processes that read content; 0 = as many as WORKER_SLOTS. They are started
	// when they are needed; users who need them at the same time get as many as each other.
	ReadChildren int `env:"READ_CHILDREN" envDefault:"0"`
	// ReadMemoryMB is the memory that one document may take while it is read, in MB of 2^20 bytes. A document that needs
	// more fails, and nothing else does. The container needs room for all children at once, about 20 MB more for each.
	ReadMemoryMB int `env:"READ_MEMORY_MB" envDefault:"256"`
	// ReadContentMB is the memory for documents that the service holds, from their download until they are sent, in MB of 2^20
	// bytes. Other documents wait meanwhile. The syncs of one user get at most half of it. Documents of up to 64 KiB do not
	// wait; their text and chunks count.
	ReadContentMB int `env:"READ_CONTENT_MB" envDefault:"128"`
}

// Bounds of Reading. Below the lower bound an ordinary page has no room.
const (
	minReadMemoryMB = 64
	maxReadMemoryMB = 1023
	// minReadContentMB has room for a page of 8 MiB for each of two users.
	minReadContentMB = 96
	// bareChildMB is the memory of a child that has read nothing yet.
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

// Children is the largest number of children of a service with so many slots.
func (r Reading) Children(slots int) int {
	if r.ReadChildren > 0 {
		return r.ReadChildren
	}
	return slots
}

// Content is how many bytes of memory the documents of a service may take.
func (r Reading) Content() int64 { return int64(r.ReadContentMB) << 20 }

// ForChildren is how many bytes all children of a service with so many slots may take.
func (r Reading) ForChildren(slots int) int64 {
	return int64(r.Children(slots)) * int64(r.ReadMemoryMB+bareChildMB) << 20
}
