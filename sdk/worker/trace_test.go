package worker_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/testonly/tracingtest"
)

func newTracedFixture(t *testing.T) (*fixture, *tracingtest.Collector) {
	f, collector := newFixture(t), tracingtest.New(t)
	f.tracing = collector.Config()
	return f, collector
}

func TestARunWhoseTriggerCameWithoutHeadersHasATraceAllTheSame(t *testing.T) {
	f, collector := newTracedFixture(t)
	c := f.triggered()
	f.work(func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) })
	f.settled(c)
	trace := collector.Await(c.session, "sync", "pick up", "fetch", "publish")
	sync, fetch := trace.One(t, "sync"), trace.One(t, "fetch")
	require.Equal(t, hex.EncodeToString(c.session[8:]), sync.Parent, "the dispatch, which this worker was not told of")
	require.Equal(t, []string{"fetched", "1"}, []string{sync.Attributes["echomind.outcome"], sync.Attributes["echomind.delivery"]})
	require.Len(t, trace.Named("publish"), 2, "a document, and sync completed")

	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	msg, err := stream.GetMsg(ctx, 1)
	require.NoError(t, err)
	published := trace.Named("publish")[0]
	require.Equal(t, fetch.ID, published.Parent)
	require.Equal(t, "00-"+published.Trace+"-"+published.ID+"-01", msg.Header.Get("Traceparent"))
}

func TestATriggerThatArrivesTwiceIsOldNewsInTheSameTrace(t *testing.T) {
	f, collector := newTracedFixture(t)
	c := f.triggered()
	f.publish(c)
	f.work(func(context.Context, *worker.Run) error { return nil })
	f.settled(c)
	f.triggered() // behind the second message
	outcomes := func() (all []string) {
		for _, s := range collector.Trace(c.session).Named("sync") {
			require.Empty(t, s.Problem)
			all = append(all, s.Attributes["echomind.outcome"])
		}
		return all
	}
	testkit.Eventually(t, soon, func() error {
		if all := outcomes(); len(all) != 2 {
			return fmt.Errorf("outcomes %v", all)
		}
		return nil
	})
	require.ElementsMatch(t, []string{"skipped", "old_news"}, outcomes())
}

func TestNothingThatOthersPutIntoHeadersTravelsOn(t *testing.T) {
	f, _ := newTracedFixture(t)
	c := f.pending()
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: c.id, ChunkingSession: c.session.String(), ConfigVersion: c.version,
	})
	require.NoError(t, err)
	_, err = f.js.PublishMsg(ctx, &nats.Msg{Subject: "connector.sync.file", Data: data, Header: nats.Header{
		"Baggage": {"token=secret"}, "Tracestate": {"vendor=secret"}, "X-Api-Key": {"secret"},
		"Traceparent": {"00-" + hex.EncodeToString(c.session[:]) + "-00f067aa0ba902b7-01"},
	}})
	require.NoError(t, err)
	f.work(func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, note(1)) })
	f.settled(c)
	stream, err := f.js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	for seq := uint64(1); seq <= 2; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		require.NoError(t, err)
		require.NotEmpty(t, msg.Header.Get("Traceparent"))
		for name := range msg.Header {
			require.True(t, name == "Traceparent" || strings.HasPrefix(name, "Echomind-"), name)
		}
	}
}

func TestAFailureIsSaidInTheLedgersWords(t *testing.T) {
	f, collector := newTracedFixture(t)
	c := f.inside(func(context.Context, *worker.Run) error { return errors.New("the password is s3cret") })
	sync := collector.Await(c.session, "sync").One(t, "sync")
	require.Equal(t, "transient failure", sync.Problem)
	require.Equal(t, "failed", sync.Attributes["echomind.verdict"])
	for _, body := range collector.Bodies() {
		require.NotContains(t, string(body), "s3cret")
	}
}
