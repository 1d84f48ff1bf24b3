//go:build !race

package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/worker"
)

// atTheEnd is a handler that sends nothing, and returns when it is told to.
func atTheEnd() (handle worker.Handler, begun chan int32, goOn chan struct{}) {
	begun, goOn = make(chan int32, 8), make(chan struct{})
	return func(_ context.Context, run *worker.Run) error {
		begun <- run.Request().ConnectorId
		<-goOn
		return nil
	}, begun, goOn
}

func TestARunThatSentNothingAndWhoseConnectorSomebodyHoldsKeepsNoSlot(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := atTheEnd()
	f.workWith(slots(2), handle)
	held := []trip{f.triggered(), f.triggered()}
	await(t, "one handler", begun)
	await(t, "the other handler", begun)
	for _, c := range held {
		defer f.hold(c)()
	}
	close(goOn)
	other := f.triggered()
	require.Equal(t, other.id, await(t, "a slot", begun))
	f.becomes(other, `verdict = 'skipped'`)
	for _, c := range held {
		f.becomes(c, drains)
		f.whole(c, 0)
	}
}

// Also where the stop comes while the answer is waited for.
func TestARunThatSentNothingAndWhoseConnectorSomebodyHoldsAtAStopIsNotLost(t *testing.T) {
	f := newFixture(t)
	handle, begun, goOn := atTheEnd()
	r := f.workWith(func(cfg *worker.Config) { cfg.Grace = time.Minute }, handle)
	c := f.triggered()
	await(t, "the handler", begun)
	f.empties(topology.SyncStream)
	defer f.hold(c)()
	close(goOn)
	require.NoError(t, r.stop())
	f.is(c, drains+` AND worker_id IS NULL`)
	f.whole(c, 0)
}

// Whatever goes together with the slow one is asked for alone; and the slow one is asked for 3 s, and ends as every other run.
func TestASkipThatIsSlowToWriteIsLeftToSemanticAndNoOtherIs(t *testing.T) {
	f := newFixture(t)
	f.conns = 10
	handle, begun, goOn := atTheEnd()
	f.workWith(slots(8), handle)
	var all []trip
	for range 8 {
		all = append(all, f.triggered())
	}
	for range all {
		await(t, "a handler", begun)
	}
	slow := all[0]
	f.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$`)
	f.exec(fmt.Sprintf(`CREATE TRIGGER slow BEFORE UPDATE ON connectors FOR EACH ROW WHEN (NEW.id = %d) EXECUTE FUNCTION slow()`, slow.id))
	close(goOn)
	for _, c := range all[1:] {
		f.becomes(c, `verdict = 'skipped'`)
	}
	f.becomes(slow, drains)
	f.whole(slow, 0)
}
