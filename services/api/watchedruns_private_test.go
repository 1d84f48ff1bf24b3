package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/api/internal/dbgen"
)

func TestAWatcherThatIsSlowHoldsNobodyAndIsToldTheNewest(t *testing.T) {
	w := &runWatcher{news: make(chan *watchedRun, 1)}
	for n := range int64(3) {
		w.tells(&watchedRun{ApiRun: dbgen.ApiRun{Stored: n}})
	}
	require.EqualValues(t, 2, (<-w.news).Stored)
	require.Empty(t, w.news)
	w.tells(nil)
	require.Nil(t, <-w.news, "what is not seen any more is news as well")
}
