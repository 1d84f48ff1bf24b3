package testkit

import (
	"os"
	"syscall"
)

const (
	sharedMemory = "/dev/shm"
	tmpfsMagic   = 0x01021994 // statfs(2)
	// enoughMemory is many times what the servers of a run hold at once.
	enoughMemory = 12 << 30
)

// temporary is a file system in memory where there is a large one and TMPDIR names no other: a quarter of a test's processor time would be
// the disk's. It looks at the size, not at what is free, so that all test binaries of a run come to the same answer.
func temporary() string {
	var stat syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(sharedMemory, &stat) == nil && stat.Type == tmpfsMagic &&
		stat.Blocks*uint64(stat.Bsize) >= enoughMemory {
		return sharedMemory
	}
	return os.TempDir()
}
