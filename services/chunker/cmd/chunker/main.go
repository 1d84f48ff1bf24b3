// The chunker as a separate program, configured by the environment.
package main

import (
	"os"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/program"
	"github.com/echomind/sync/services/chunker"
)

func main() {
	confine.Serve(chunker.Tasks...)
	os.Exit(program.Main(chunker.Run))
}
