package leastprivilege

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

func TestTheAPIListsShowsReplaysAndDropsDeadLettersAsItsOwnUser(t *testing.T) {
	t.Parallel()
	url, database := serve(t), testkit.Database(t, db.Up)
	apply(t, url)
	conn, do := serveAPI(t, url, database, "superadmin", "{read,operate,write}")
	var id int32
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`).Scan(&id))
	_, semantic := as(t, url, "semantic")
	letter, err := proto.Marshal(&internalpb.DocumentProcessRequest{ConnectorId: id, Number: 1})
	require.NoError(t, err)
	for range 2 {
		_, err = semantic.Publish(t.Context(), "dlq.document.process", letter)
		require.NoError(t, err)
	}
	waiting := func() int {
		var body struct {
			DeadLetters []struct{} `json:"dead_letters"`
		}
		require.NoError(t, json.Unmarshal(do(http.StatusOK, http.MethodGet, "/deadletters"), &body))
		return len(body.DeadLetters)
	}
	require.Equal(t, 2, waiting())
	do(http.StatusOK, http.MethodGet, "/deadletters/1")
	do(http.StatusAccepted, http.MethodPost, "/deadletters/1/replay")
	do(http.StatusNoContent, http.MethodDelete, "/deadletters/2")
	require.Zero(t, waiting())
}
