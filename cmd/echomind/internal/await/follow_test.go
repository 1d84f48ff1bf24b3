package await_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
)

// scripted are looks, of which the last is seen for ever.
func scripted(loose bool, looks ...await.Seen) await.Source {
	return await.Source{Name: "the script", Every: time.Millisecond, Loose: loose, Away: func(error) bool { return false }, Look: func(context.Context) (await.Seen, error) {
		seen := looks[0]
		if len(looks) > 1 {
			looks = looks[1:]
		}
		return seen, nil
	}}
}

// Of a source whose looks are not of one moment the parameters may seem to be taken back while they come back: it is asked again.
func TestParametersAreTakenBackWhereTwoLooksSaySo(t *testing.T) {
	t.Parallel()
	run := dbgen.SchedulerRun{ID: uuid.New(), Parameters: []byte(`{"a": 1}`), Status: "superseded"}
	without, with := &dbgen.Connector{ID: 1, Status: "ACTIVE"}, &dbgen.Connector{ID: 1, Status: "ACTIVE", NextParameters: []byte(`{"a": 1}`)}
	done := run
	done.Status = "completed"
	between := await.Seen{Connector: without, Runs: []dbgen.SchedulerRun{run}}
	_, err := await.Follow(t.Context(), scripted(true, between, await.Seen{Connector: with, Runs: []dbgen.SchedulerRun{run}}, between,
		await.Seen{Connector: without, Runs: []dbgen.SchedulerRun{run, done}}), true, nil)
	require.NoError(t, err)
	_, err = await.Follow(t.Context(), scripted(true, between, between), true, nil)
	require.ErrorIs(t, err, await.ErrWithdrawn)
	_, err = await.Follow(t.Context(), scripted(false, between, await.Seen{Connector: with}), true, nil)
	require.ErrorIs(t, err, await.ErrWithdrawn)
}

func TestAnErrorThatDoesNotPassEndsTheWait(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	away, asked := errors.New("away"), 0
	_, err := await.Follow(t.Context(), await.Source{Every: time.Millisecond, Away: func(err error) bool { return errors.Is(err, away) }, Look: func(context.Context) (await.Seen, error) {
		if asked++; asked < 3 {
			return await.Seen{}, away
		}
		return await.Seen{}, wrong
	}}, false, nil)
	require.ErrorIs(t, err, wrong)
	require.Equal(t, 3, asked)
}
