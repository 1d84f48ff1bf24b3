// A worker for the synthetic source as a program of its own, configured by the environment.
package main

import (
	"os"

	"github.com/echomind/sync/chaos/synthetic"
	"github.com/echomind/sync/internal/program"
)

func main() { os.Exit(program.Main(synthetic.Run)) }
