package semantic

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestWhereAMessageWasLostNothingIsTakenForGoneFromTheSource(t *testing.T) {
	for name, b := range map[string]func(c trip) int64{
		"a document": func(c trip) int64 { return 2 },
		"a part": func(c trip) int64 {
			c.stores(c.doc(2, "b", "bana", part(0, 2)))
			return 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.synced(map[string]string{"a": "apple", "b": "banana"}).reconfigured().again()
			c.stores(c.doc(1, "a", "apple"))
			lost := b(c)
			require.NoError(t, f.countPoison(ctx, delivery{request: c.message(lost), try: c.of()}, errors.New("it was b")))
			c.stores(c.completed(lost))
			require.Equal(t, "completed", c.verdict())
			f.sweeps()
			require.Contains(t, c.documents(), "b | ", "it is in the source, and nobody has said that it is gone")
			next := c.again()
			next.stores(next.doc(1, "a", "apple"), next.completed(1))
			f.sweeps()
			require.NotContains(t, c.documents(), "b | ", "a listing that arrived whole has not brought it")
		})
	}
}

func TestARunThatTakesTooLongWithoutComingFurtherCountsAsAFailure(t *testing.T) {
	f := newFixture(t)
	c := f.connector(`max_retries = 3`)
	for i := range 3 {
		c = c.again()
		c.stores(c.checkpoint(1, 1)) // the same each time
		require.NoError(t, c.cut(1, uint64(i+1)))
		require.NoError(t, inTime(f.CompleteStored))
		require.Equal(t, int32(i), one[int32](f, `SELECT failure_count FROM connectors WHERE id = $1`, c.connector))
	}
}

// cut gives a run up that took too long, as its worker does.
func (c trip) cut(sent int64, place uint64) error {
	c.f.t.Helper()
	return lifecycle.New(c.f.pool).Cut(ctx, c.of(), sent, place, lifecycle.TooLong, "it takes its time")
}
