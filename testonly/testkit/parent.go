package testkit

import (
	"fmt"
	"strconv"
	"strings"
)

// process is one of this machine's; the time of its start tells it from a later one of the same number.
type process struct {
	// pid is 0 for nobody.
	pid     int
	started string
}

func (p process) String() string { return fmt.Sprintf("%d:%s", p.pid, p.started) }

func parseProcess(s string) process {
	number, started, _ := strings.Cut(s, ":")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return process{}
	}
	return process{pid: pid, started: started}
}

// goTest is the process pid if that is the go command, which ends with the run, else nobody: a shell or an editor may
// live on for days.
func goTest(pid int) process {
	name, started := look(pid)
	if name != "go" {
		return process{}
	}
	return process{pid: pid, started: started}
}

// alive says whether it is still the same process.
func (p process) alive() bool {
	if p.pid == 0 {
		return false
	}
	_, started := look(p.pid)
	return started == p.started
}
