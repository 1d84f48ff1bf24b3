package demo

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/telemetry"
)

// Command is `echomind demo`.
func Command(printRuns func(io.Writer, []dbgen.SchedulerRun) error) *cobra.Command {
	var docs string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole thing in one go, on real input, in a temporary folder",
		Long: `Show the whole thing in one go: start the stack in a temporary folder, sync a small site served on loopback and a copy
of a folder of documents, search them, change one page and one file, sync again, and print the ledger. It leaves nothing
behind, and exits with 1 if anything is not as it should be.`,
		Example: "  echomind demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := filepath.Abs(docs)
			if err != nil {
				return fmt.Errorf("find --docs %s: %w", docs, err)
			}
			if info, err := os.Stat(filepath.Join(folder, changedFile)); err != nil || info.IsDir() {
				return fmt.Errorf("--docs %s holds no %s: run the demo in the repository, or name its docs folder",
					folder, changedFile)
			}
			cfg, err := stack.LoadConfig(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			cfg.Log = telemetry.Logger(cmd.ErrOrStderr(), "text", slog.LevelWarn)
			cfg.Registry = "" // it is gone in a minute, and hides no other stack
			return Run(cmd.Context(), Config{Docs: folder, Out: cmd.OutOrStdout(), PrintRuns: printRuns, Stack: cfg})
		},
	}
	cmd.Flags().StringVar(&docs, "docs", "docs", "the repository's folder of documents; a copy of it is synced")
	return cmd
}
