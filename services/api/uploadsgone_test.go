//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

func TestAConnectorThatIsDeletedLeavesNoObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id, other := me.uploader(), me.uploader()
	require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", "A", "b.md", "B").status)
	require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", "C").status)
	require.Equal(t, http.StatusAccepted, me.upload(other, "a.md", "other").status)
	require.Equal(t, http.StatusNoContent, me.do("DELETE", fmt.Sprintf("/connectors/%v", id), nil, "If-Match", "*").status)
	w.exec(`INSERT INTO connectors (id, name, type, user_id, config) VALUES ($1, 'again', 'file', 7, '{"url": "upload:"}')`, id)
	require.Empty(t, me.fileNames(id), "a later connector of the same number has files of its own")
	require.NoError(t, w.api.RemoveDropped(t.Context()))
	require.Equal(t, 1, w.objects(), "the one that was replaced, too: no sync reads it")
	w.dropped()
	require.Equal(t, 1, w.objects())
	require.Equal(t, []string{"a.md"}, me.fileNames(other))
	require.Equal(t, 1, one[int](w, `SELECT count(*) FROM upload_places`))
	require.Zero(t, one[int](w, `SELECT count(*) FROM dropped_objects`))
	require.Zero(t, one[int](w, `SELECT count(*) FROM audit WHERE action = 'files.delete'`))
}

func TestConnectorsThatAreAddedAndDeletedFillNoDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.UploadMaxMB, c.UploadOwnerMaxMB = 1, 1 })
	me, mib := w.as(7, identity.User), strings.Repeat("x", 1<<20)
	for range 4 {
		id := me.uploader()
		require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", mib).status)
		require.Equal(t, http.StatusAccepted, me.do("DELETE", fmt.Sprintf("/connectors/%v/files/a.md", id), nil, "If-Match", "*").status)
		require.Equal(t, http.StatusNoContent, me.do("DELETE", fmt.Sprintf("/connectors/%v", id), nil, "If-Match", "*").status)
	}
	require.NoError(t, w.api.RemoveDropped(t.Context()))
	require.Zero(t, w.objects())
	for range 2 { // nor do many that stay
		id := me.uploader()
		require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", mib).status)
		require.Equal(t, http.StatusAccepted, me.do("DELETE", fmt.Sprintf("/connectors/%v/files/a.md", id), nil, "If-Match", "*").status)
	}
	me.refused(422, "invalid", me.upload(me.uploader(), "a.md", mib))
}

func TestFilesOfAConnectorThatTakesNoUploadsAnyMoreAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	for how, change := range map[string]string{
		"another folder": `UPDATE connectors SET config = '{"url": "file:///srv"}'`, "another name": `UPDATE connectors SET config = '{"URL": "upload:"}'`,
		"disabled": `SELECT moves.disable(id, 'x') FROM connectors`,
	} {
		id := me.uploader()
		require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", "A").status)
		w.exec(change)
		me.refused(409, "conflict", me.upload(id, "b.md", "B"))
		deleted := me.do("DELETE", fmt.Sprintf("/connectors/%v/files/a.md", id), nil, "If-Match", "*")
		require.Equal(t, http.StatusAccepted, deleted.status, "%s: %s", how, deleted.text)
		require.Nil(t, deleted.body["trigger_requested_at"])
		require.Empty(t, me.fileNames(id))
	}
}

func TestWhatCannotBeRemovedHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", "A").status)
	require.Equal(t, http.StatusAccepted, me.do("DELETE", fmt.Sprintf("/connectors/%v/files/a.md", id), nil, "If-Match", "*").status)
	refused := "00"
	if one[bool](w, `SELECT starts_with(object::text, '00') FROM dropped_objects WHERE bytes > 0`) {
		refused = "01"
	}
	require.NoError(t, os.RemoveAll(filepath.Join(w.uploads, "uploads", refused)))
	require.NoError(t, os.Symlink("/", filepath.Join(w.uploads, "uploads", refused))) // it leads out of the folder: refused
	w.exec(`INSERT INTO dropped_objects SELECT ($1 || right(gen_random_uuid()::text, 34))::uuid, clock_timestamp() - interval '1 day', 0 FROM generate_series(1, 100)`, refused)
	w.exec(`UPDATE dropped_objects SET drop_at = clock_timestamp() WHERE bytes > 0`)
	for range 2 { // two minutes
		require.Error(t, w.api.RemoveDropped(t.Context()))
	}
	require.Zero(t, one[int](w, `SELECT count(*) FROM dropped_objects WHERE bytes > 0`))
	require.Zero(t, one[int64](w, `SELECT sum(left_bytes) FROM upload_places`))
}

func TestWhatAProcessThatDiesHasWrittenIsNeverAFileAndIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User)
	id := me.uploader()
	w.exec(`CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'`)
	w.exec(`CREATE TRIGGER dies AFTER INSERT ON uploaded_files FOR EACH ROW EXECUTE FUNCTION dies()`)
	r := me.upload(id, "a.md", "half of a commit")
	me.refused(503, "unavailable", r)
	require.Empty(t, me.fileNames(id))
	require.Zero(t, one[int](w, `SELECT count(*) FROM uploaded_files`))
	require.True(t, one[bool](w, `SELECT trigger_requested_at IS NULL OR trigger_requested_at <= created_at + interval '1 second' FROM connectors WHERE id = $1`, id))
	w.exec(`DROP TRIGGER dies ON uploaded_files`)
	w.dropped()
	require.Zero(t, w.objects())
	require.Equal(t, http.StatusAccepted, me.upload(id, "a.md", "whole").status)
	w.dropped()
	require.Equal(t, 1, w.objects())
}
