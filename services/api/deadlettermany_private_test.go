package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/deadletter"
)

func TestLettersOfConnectorsEndWithOneWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	letters := []deadletter.Letter{{ID: 3, ConnectorID: 1}, {ID: 5, ConnectorID: 2}, {ID: 6, ConnectorID: 1}, {ID: 9, ConnectorID: 3}}
	var done []uint64
	var fails uint64
	with := func(letters []deadletter.Letter) (int, error) {
		for i, l := range letters {
			if l.ID == fails {
				return i, errRemoval
			}
			done = append(done, l.ID)
		}
		return len(letters), nil
	}
	rest, err := together(letters, time.Now(), with)
	require.NoError(t, err)
	require.Equal(t, []uint64{3, 6}, done)
	require.Equal(t, uint64(5), rest)

	done = nil
	rest, err = together(letters, time.Now().Add(time.Hour), with)
	require.NoError(t, err)
	require.Equal(t, []uint64{3, 6, 5, 9}, done)
	require.Zero(t, rest)

	for id, wants := range map[uint64]uint64{3: 3, 5: 5, 6: 5, 9: 9} {
		fails = id
		rest, err = together(letters, time.Now().Add(time.Hour), with)
		require.ErrorIs(t, err, errRemoval)
		require.Equal(t, wants, rest, "where %d is not removed", id)
	}
}
