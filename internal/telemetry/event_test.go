package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/telemetry"
)

var marks = map[telemetry.Event]string{
	telemetry.Started: "🕐", telemetry.Checking: "🔍", telemetry.Triggered: "📤", telemetry.Completed: "✅",
	telemetry.Skipped: "⏭️", telemetry.Failed: "❌",
}

func TestTheTextFormMarksTheEventsOfARun(t *testing.T) {
	var out bytes.Buffer
	log := telemetry.Logger(&out, "text", slog.LevelInfo).With("type", "file").WithGroup("run")
	for event, mark := range marks {
		out.Reset()
		log.Info("sync completed", "event", event, "err", nil)
		require.Contains(t, out.String(), `msg="`+mark+` sync completed" type=file run.event=`+string(event))
	}
	out.Reset()
	log.Info("sync completed", "event", "completed")
	log.Debug("below the level", "event", telemetry.Failed)
	require.Contains(t, out.String(), `msg="sync completed"`, "a mark is never guessed from text")
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

func TestTheJSONFormCarriesTheEventAndNoMark(t *testing.T) {
	var out bytes.Buffer
	telemetry.Logger(&out, "json", slog.LevelInfo).Info("sync completed", "event", telemetry.Completed)
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "sync completed", line["msg"])
	require.Equal(t, "completed", line["event"])
}

func TestEveryLineOfARunCarriesConnectorSessionAndType(t *testing.T) {
	var out bytes.Buffer
	telemetry.OfRun(telemetry.Logger(&out, "text", slog.LevelInfo), 7, "a-session", "web").Info("crawled")
	require.True(t, strings.HasSuffix(out.String(), "connector=7 session=a-session type=web\n"))
}
