// Package shell writes what people copy into a shell.
package shell

import "strings"

// Quote is a text as a POSIX shell takes it for itself: nothing in it is expanded (POSIX.1-2024, XCU 2.2.2).
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
