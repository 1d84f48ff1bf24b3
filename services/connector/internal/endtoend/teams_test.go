package endtoend

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/teams"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/fakereader"
)

func TestAChannelIsKeptInSync(t *testing.T) {
	t.Parallel()
	fake := fakegraph.New()
	t.Cleanup(fake.Close)
	fake.PageSize = 2
	const id = "19:abc@thread.tacv2"
	_, root := fake.NewDrive("Documents", "team")
	folder := fake.Folder(root, "General")
	fake.NewChannel("team", id, folder)
	l := newLine(t, "teams", fmt.Sprintf(`{"team_id": "team", "channel_id": %q}`, id))
	channel := func(ctx context.Context, run *worker.Run) error {
		var cfg teams.Config
		if err := run.Config(&cfg); err != nil {
			return err
		}
		_, err := teams.Sync(ctx, cfg, teams.Options{
			Endpoint: fake.Endpoint(), API: fake.Client(), Plain: fake.Plain(), Extract: fakereader.Plain{},
		}, run)
		return err
	}
	plan := fake.File(folder, "plan.txt", "the plan")
	var threads []string
	for i := range 5 {
		threads = append(threads, fake.Say(id, "", fakegraph.Post{Author: "Ann", HTML: fmt.Sprintf("<p>zebra %d</p>", i)}))
	}
	reply := fake.Say(id, threads[0], fakegraph.Post{Author: "Bob", HTML: "see", Files: map[string]string{"plan.txt": fake.URL(plan)}})
	require.Equal(t, "completed", l.sync(channel))
	docs := l.documents()
	require.Len(t, docs, 6)
	first := docs["message/"+threads[0]]
	require.Equal(t, "zebra 0", first.Title)
	require.Contains(t, first.Text, "Ann (2026-03-01 09:00 UTC):\nzebra 0")
	require.Contains(t, first.Text, "Bob (2026-03-01 09:00 UTC):\nsee\n[file: plan.txt]")
	require.Equal(t, "the plan", docs["message/"+threads[0]+"/guid-of-plan.txt"].Text)
	require.Equal(t, "skipped", l.sync(channel))

	fake.Edit(id, reply, fakegraph.Post{Author: "Bob", HTML: "nothing to see"})
	fake.Retract(id, threads[1])
	fake.React(id, threads[2])
	require.Equal(t, "completed", l.sync(channel))
	docs = l.documents()
	require.Len(t, docs, 4)
	require.Contains(t, docs["message/"+threads[0]].Text, "nothing to see")
}
