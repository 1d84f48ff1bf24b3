package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
	"github.com/echomind/sync/testonly/testkit"
)

func TestWhatIsStuckIsFound(t *testing.T) {
	const stuck = "nothing is stuck"
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.finds(stuck, "is ACTIVE")
	session := l.claim(id)
	l.finds(stuck, "is PENDING")
	l.pickUp(id, time.Hour)
	l.finds(stuck, "is SYNCING")
	l.finish(id, session, 1)
	f := l.audit(stuck)
	require.Empty(t, f.Violations)
	require.Equal(t, 1, f.Checked)
	l.do(`UPDATE connectors SET schedule_cron = '* * * * *', refresh_freq_minutes = NULL`)
	l.finds(stuck, "unplanned")
	l.do(`UPDATE connectors SET schedule_cron = NULL`)
	require.Empty(t, l.audit(stuck).Violations)
	l.force(`UPDATE connectors SET trigger_requested_at = clock_timestamp()`)
	l.finds(stuck, "triggered at")
	l.force(`UPDATE connectors SET trigger_requested_at = NULL`)
	l.do(`INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, dispatched_at, config_version)
		VALUES (gen_random_uuid(), 99, 1, 'web', 'new', clock_timestamp(), clock_timestamp(), clock_timestamp(), 1)`)
	l.finds(stuck, "which does not exist")
}

func TestATriggerThatIsForgottenIsFound(t *testing.T) {
	const forgotten = "no trigger is forgotten"
	l := newLab(t)
	id, off := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	ask := func() { l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp()`) }
	ask()
	l.disable(off)
	l.do(`DELETE FROM connectors WHERE id = $1`, off)
	session := l.claim(id)
	l.pickUp(id, time.Hour)
	ask()
	l.finish(id, session, 1)
	f := l.audit(forgotten)
	require.Empty(t, f.Violations)
	require.Equal(t, 2, f.Checked)
	l.claim(id)
	l.do(`UPDATE connectors SET trigger_requested_at = NULL`)
	l.finds(forgotten, "from PENDING to PENDING")
}

func TestWhatIsInFlightIsExplainedByAMessageOrALease(t *testing.T) {
	l := newLab(t)
	pending, leased, expired := l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{}), l.add("synthetic", source.Config{})
	l.add("synthetic", source.Config{})
	waits := l.claim(pending)
	l.claim(leased)
	l.pickUp(leased, time.Hour)
	drains := l.claim(expired)
	l.pickUp(expired, -time.Second)
	queued := map[uuid.UUID]bool{waits: true, drains: true}
	ask := func() []string {
		all, err := audit.Unexplained(ctx, l.pool, func(context.Context) (map[uuid.UUID]bool, error) { return queued, nil })
		require.NoError(t, err)
		return all
	}
	require.Empty(t, ask())
	delete(queued, waits)
	require.Len(t, ask(), 1)
	require.Contains(t, ask()[0], fmt.Sprintf("connector %d (synthetic) is PENDING", pending))
	delete(queued, drains)
	require.Len(t, ask(), 2)
	require.Contains(t, ask()[1], fmt.Sprintf("connector %d (synthetic) is SYNCING", expired))
}

func TestTheStreamsSayWhichSessionsAreQueued(t *testing.T) {
	t.Parallel()
	js := testkit.JetStream(t, testkit.NATS(t).URL())
	none, err := audit.Queued(js)(ctx)
	require.NoError(t, err)
	require.Empty(t, none, "there are no streams yet")
	require.NoError(t, streams.EnsureStreams(ctx, js))
	trigger, document, gone := uuid.New(), uuid.New(), uuid.New()
	publish := func(subject string, session uuid.UUID, data []byte) uint64 {
		msg := nats.NewMsg(subject)
		msg.Header.Set(topology.HeaderSession, session.String())
		msg.Data = data
		ack, err := js.PublishMsg(ctx, msg)
		require.NoError(t, err)
		return ack.Sequence
	}
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{ConnectorId: 1, ChunkingSession: trigger.String()})
	require.NoError(t, err)
	publish("connector.sync.web", uuid.New(), data)
	publish(topology.DocumentSubject, document, nil)
	seq := publish(topology.DocumentSubject, gone, nil)
	publish(topology.DocumentSubject, document, nil)
	stream, err := js.Stream(ctx, topology.DocumentStream)
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(ctx, seq))
	queued, err := audit.Queued(js)(ctx)
	require.NoError(t, err)
	require.Equal(t, map[uuid.UUID]bool{trigger: true, document: true}, queued)
}

func TestTheTableShowsWhatLookedAtNothingAndWhatWasViolated(t *testing.T) {
	l := newLab(t)
	for range 25 {
		l.add("synthetic", source.Config{})
	}
	findings, err := audit.Audit(ctx, l.pool, l.opts)
	require.NoError(t, err)
	require.Len(t, findings, len(checks))
	var table bytes.Buffer
	audit.WriteTable(&table, append(findings, audit.Finding{Promise: 3, Name: "of the harness", Violations: []string{"it broke"}}))
	for _, part := range []string{"NOTHING", "connector 1 (synthetic) is ACTIVE", "! and 5 more", "of the harness", "! it broke"} {
		require.Contains(t, table.String(), part)
	}
}
