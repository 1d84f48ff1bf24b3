//go:build !race

package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// A page token holds a name that the page masks, or a number of what is others': it is sealed.
func TestAPageTokenTellsNothingAndCountsAtEveryReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', 8, 'org') RETURNING id`)
	w.exec(`INSERT INTO documents (connector_id, source_id, url, status, config_version)
		SELECT $1, 'https://bob:hunter2@h.example/' || to_char(n, '000') || '?access_token=s3cr3t', '', 'stored', 1 FROM generate_series(1, 5) n`, id)
	w.exec(`INSERT INTO connectors (name, type, user_id, scope) SELECT 'y', 'web', 8, 'org' FROM generate_series(1, 5)`)
	me := w.as(9, identity.User)
	other := caller{w.replica(), me.token}
	for list, key := range map[string]string{fmt.Sprintf("/connectors/%d/documents", id): "source_id", "/connectors": "id"} {
		name := strings.TrimPrefix(list[strings.LastIndex(list, "/"):], "/")
		first := me.get(list + "?page_size=2")
		token := first["next_page_token"].(string)
		text, err := base64.RawURLEncoding.DecodeString(token)
		require.NoError(t, err)
		for _, told := range []string{"hunter2", "s3cr3t", "h.example"} {
			require.NotContains(t, string(text), told, list)
		}
		require.False(t, json.Valid(text), list)
		next := other.get(list + "?page_size=2&page_token=" + token)[name].([]any)
		require.Len(t, next, 2)
		require.NotEqual(t, first[name].([]any)[1].(map[string]any)[key], next[0].(map[string]any)[key])
		require.Equal(t, next, me.get(list + "?page_size=2&page_token=" + token)[name])
		for i := range text {
			text[i] ^= 1
			me.refused(422, "invalid", me.do("GET", list+"?page_token="+base64.RawURLEncoding.EncodeToString(text), nil))
			text[i] ^= 1
		}
		me.refused(422, "invalid", me.do("GET", list+"?page_token="+base64.RawURLEncoding.EncodeToString(text[:5]), nil))
	}
}
