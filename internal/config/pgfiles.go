package config

import (
	"os"
	"path/filepath"
)

// PostgresFiles are the files in which Postgres's clients look for secrets beside DATABASE_URL ("libpq: Environment
// Variables, The Password File, Client Certificates"). They may be missing.
func PostgresFiles() []string {
	var files []string
	for _, name := range []string{"PGPASSFILE", "PGSSLKEY", "PGSSLCERT", "PGSERVICEFILE"} {
		if file := os.Getenv(name); file != "" {
			files = append(files, file)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".pgpass"), filepath.Join(home, ".postgresql"), filepath.Join(home, ".pg_service.conf"))
	}
	return files
}
