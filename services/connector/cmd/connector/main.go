// The connector as a program of its own, configured by the environment.
package main

import (
	"os"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/program"
	"github.com/echomind/sync/services/connector"
)

func main() {
	confine.Serve(connector.Tasks...)
	os.Exit(program.Main(connector.Run))
}
