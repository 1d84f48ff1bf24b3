package events_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
)

func BenchmarkMessage(b *testing.B) {
	now := time.Now()
	e := events.Event{ID: "17.123456.1764560000000000", Time: now, Connector: &publicpb.ConnectorEvent{ConnectorId: 17, Type: "web", Was: 1, Status: 2, RunId: "251aec23-af13-4b55-9ff8-2678f8396100", MovedAt: timestamppb.New(now)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Message(); err != nil {
			b.Fatal(err)
		}
	}
}
