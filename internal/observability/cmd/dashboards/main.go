// Command dashboards writes the Grafana dashboards into a folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/echomind/sync/internal/observability"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	for _, d := range observability.Dashboards() {
		text, err := d.JSON()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, d.UID+".json"), text, 0o644); err != nil {
			return fmt.Errorf("write a dashboard: %w", err)
		}
	}
	return nil
}
