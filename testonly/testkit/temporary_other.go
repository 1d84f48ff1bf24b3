//go:build !linux

package testkit

import "os"

func temporary() string { return os.TempDir() }
