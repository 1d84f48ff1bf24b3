// Command echomind is what people type: it runs the stack on a laptop, and looks at and changes connectors.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/console"
	"github.com/echomind/sync/cmd/echomind/internal/demo"
	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/confine"
)

func main() {
	confine.Serve(stack.Tasks...)
	os.Exit(console.Execute(context.Background(), root()))
}

func root() *cobra.Command {
	root := console.Root()
	root.AddCommand(stack.Command(), demo.Command(console.PrintRuns))
	return root
}
