// The scheduler as a program of its own, configured by the environment.
package main

import (
	"os"

	"github.com/echomind/sync/internal/program"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/scheduler/leader/lease"
)

func main() { os.Exit(program.Main(scheduler.RunOn(lease.New))) }
