package chunker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFilesThatPostgresClientsReadAreNeverRead(t *testing.T) {
	t.Setenv("HOME", "/home/walrus")
	for _, name := range []string{"PGPASSFILE", "PGSSLKEY", "PGSSLCERT", "PGSERVICEFILE"} {
		t.Setenv(name, "/keys/"+name)
	}
	c := Config{}
	c.DatabaseURL = "postgres://u@h/db?sslkey=/url/key&sslcert=/url/cert&passfile=/url/pass&servicefile=/url/service"
	require.Subset(t, c.private(), []string{
		"/keys/PGPASSFILE", "/keys/PGSSLKEY", "/keys/PGSSLCERT", "/keys/PGSERVICEFILE", "/url/key", "/url/cert", "/url/pass", "/url/service",
		"/home/walrus/.pgpass", "/home/walrus/.postgresql", "/home/walrus/.pg_service.conf",
	})
}
