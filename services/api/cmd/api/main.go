// The API as a program of its own, configured by the environment.
package main

import (
	"os"

	"github.com/echomind/sync/internal/program"
	"github.com/echomind/sync/services/api"
)

func main() { os.Exit(program.Main(api.Run)) }
