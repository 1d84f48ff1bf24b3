//go:build !linux

package rootblob

import "os"

// ofKernel is unknown on these systems.
func ofKernel(*os.File) bool { return false }
