package testkit

import (
	"fmt"
	"os"
	"strings"
)

// look is a process's name and the time of its start (clock ticks since the machine's); both are empty where there is
// none, or a zombie.
func look(pid int) (name, started string) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	// "pid (name) state …": the name may hold brackets.
	stat := string(raw)
	left, right := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if left < 0 || right < left {
		return "", ""
	}
	fields := strings.Fields(stat[right+1:])
	const state, starttime = 0, 19
	if len(fields) <= starttime || strings.ContainsAny(fields[state], "ZX") {
		return "", ""
	}
	return stat[left+1 : right], fields[starttime]
}
