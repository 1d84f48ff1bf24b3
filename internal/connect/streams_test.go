package connect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/testkit"
)

func TestAServiceIsNotReadyWhileAStreamIsGoneAndNamesTheFix(t *testing.T) {
	t.Parallel()
	o := open(t, common(testkit.Database(t, db.Up), testkit.NATS(t).URL()))
	s := o.isReady()
	for _, stream := range []string{topology.SyncStream, topology.DocumentStream, topology.DeadLetterStream, topology.EventStream} {
		require.NoError(t, s.Stream.DeleteStream(t.Context(), stream))
		o.says("test.nats", "stream "+stream+" is missing; unless a service may make it again, run `echomind streams apply`")
		require.NoError(t, streams.EnsureStreams(t.Context(), s.Stream))
		o.isReadyAgain()
	}
}
