package topology

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestAWorkersConsumerWaitsForEver(t *testing.T) {
	for _, c := range []jetstream.ConsumerConfig{must(SyncConsumer("web")), DocumentConsumer()} {
		if c.MaxDeliver != -1 || c.MaxAckPending != -1 || c.DeliverPolicy != jetstream.DeliverAllPolicy ||
			c.AckPolicy != jetstream.AckExplicitPolicy || c.FilterSubject == "" || c.Durable == "" {
			t.Errorf("consumer %+v", c)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestATypeNameIsCheckedBeforeItBecomesASubject(t *testing.T) {
	for _, name := range []string{"web", "google_drive", "a", "a1_", strings.Repeat("a", 63)} {
		if subject, err := SyncSubject(name); err != nil || subject != "connector.sync."+name {
			t.Errorf("%q: %q, %v", name, subject, err)
		}
	}
	for _, name := range []string{"", "Web", "1a", "_a", "a.b", "a*", ">", "a b", "a-b", "ä", "a\n", strings.Repeat("a", 64)} {
		if _, err := SyncSubject(name); !errors.Is(err, ErrTypeName) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := SyncConsumer(name); !errors.Is(err, ErrTypeName) {
			t.Errorf("consumer of %q: %v", name, err)
		}
	}
}

func TestADispatchTimeIsRead(t *testing.T) {
	at, err := DispatchedAt(nats.Header{HeaderDispatchedAt: {"2026-03-01T00:02:03.000004Z"}})
	if err != nil || !at.Equal(time.Date(2026, 3, 1, 0, 2, 3, 4000, time.UTC)) {
		t.Errorf("%s, %v", at, err)
	}
	for _, bad := range []nats.Header{nil, {HeaderDispatchedAt: {"yesterday"}}} {
		if _, err := DispatchedAt(bad); err == nil || !strings.Contains(err.Error(), HeaderDispatchedAt) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
