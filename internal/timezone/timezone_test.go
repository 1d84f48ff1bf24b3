package timezone_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/timezone"
)

func TestNamesOfTheDatabaseAreLoadedAndThoseOfAMachineAreNot(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"} {
		zone, err := timezone.Load(name)
		require.NoError(t, err)
		require.Equal(t, name, zone.String())
	}
	for _, name := range []string{
		"", "Local", "localtime", "posixrules", "posix/UTC", "right/Europe/Berlin", "./UTC", "Europe//Berlin", "Europe/../UTC", "/UTC", "UTC/", "Mars/Olympus", "UTC\x00",
		strings.Repeat("x", 100_000),
	} {
		_, err := timezone.Load(name)
		require.ErrorContains(t, err, "is no time zone")
		require.Less(t, len(err.Error()), 400)
	}
}
