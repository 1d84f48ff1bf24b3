package rootblob

import (
	"os"
	"syscall"
)

// kernels are the file systems in which the kernel shows itself and processes: their environment, their command lines. They may
// be mounted anywhere ("statfs(2)").
var kernels = map[uint32]bool{
	0x9fa0:     true, // proc
	0x62656572: true, // sysfs
	0x27e0eb:   true, // cgroup
	0x63677270: true, // cgroup2
	0x64626720: true, // debugfs
	0x74726163: true, // tracefs
	0x73636673: true, // securityfs
	0xcafe4a11: true, // bpf
	0x6165676c: true, // pstore
	0xde5e81e4: true, // efivarfs
}

// ofKernel tells whether an open file or folder is in such a file system.
func ofKernel(file *os.File) bool {
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	_ = raw.Control(func(fd uintptr) {
		var stat syscall.Statfs_t
		is = syscall.Fstatfs(int(fd), &stat) == nil && kernels[uint32(stat.Type)] //nolint:gosec // magic numbers have 32 bits
	})
	return is
}
