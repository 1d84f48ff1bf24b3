package pgserver

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// alive says whether a process runs. A zombie does not: where no init process reaps orphans, as in many containers, it stays
// for ever.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// "pid (name) state …": the name may contain anything, also a bracket.
	after := strings.TrimSpace(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return after != "" && !strings.ContainsAny(after[:1], "ZX")
}

// serves says whether a process is a server of the cluster: by its arguments, else by its working folder, which is always the
// cluster but is readable only with the right to trace the process.
func serves(pid int, cluster string) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
	return isServerOf(cluster, args) || isServer(args) && sameFolder(fmt.Sprintf("/proc/%d/cwd", pid), cluster)
}
