// A worker for the synthetic source as a program of its own, configured by the environment.
package main

import (
	"os"

	"github.com/echomind/sync/internal/program"
	"github.com/echomind/sync/testonly/chaos/synthetic"
)

func main() { os.Exit(program.Main(synthetic.Run)) }
