//go:build !race

package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

func TestAWatchedRunEndsForWhoLosesTheRightToSeeIt(t *testing.T) {
	t.Parallel()
	const alice = "X-Authentik-Uid"
	for how, c := range map[string]struct {
		role    identity.Role // none: a proxy signs them in
		of      identity.Ownership
		said    string
		takes   string
		isStill bool // they may sign in
	}{
		"left the group":                 {identity.User, identity.Ownership{UserID: 8, Scope: "group", GroupID: "g"}, "", `DELETE FROM group_members`, true},
		"is no superadmin more":          {identity.Superadmin, identity.Ownership{UserID: 8, Scope: "user"}, "", `INSERT INTO users (user_id, role) VALUES (7, 'user')`, true},
		"was removed":                    {identity.User, identity.Ownership{UserID: 7, Scope: "user"}, "", `INSERT INTO removed_users VALUES (7)`, false},
		"has a token that was revoked":   {identity.User, identity.Ownership{UserID: 7, Scope: "user"}, "", `UPDATE access_tokens SET revoked_at = clock_timestamp()`, false},
		"has a token that is over":       {identity.User, identity.Ownership{UserID: 7, Scope: "user"}, "", `UPDATE access_tokens SET expires_at = clock_timestamp()`, false},
		"left the group, by a proxy":     {"", identity.Ownership{UserID: 8, Scope: "group", GroupID: "g"}, "", `DELETE FROM group_members`, true},
		"is no superadmin, by a proxy":   {"", identity.Ownership{UserID: 8, Scope: "user"}, "roots", `INSERT INTO users (user_id, role) VALUES (7, 'user')`, true},
		"was removed, by a proxy":        {"", identity.Ownership{UserID: 7, Scope: "user"}, "", `INSERT INTO removed_users VALUES (7)`, false},
		"is another user, by a proxy":    {"", identity.Ownership{UserID: 7, Scope: "user"}, "", `UPDATE identities SET user_id = 9`, true},
		"is nobody any more, by a proxy": {"", identity.Ownership{UserID: 7, Scope: "user"}, "", `UPDATE identities SET user_id = NULL`, false},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := proxied(t)
			w.exec(`INSERT INTO group_members VALUES (7, 'g', false)`)
			of := w.something(c.of)
			headers := []string{alice, "alice", "X-Authentik-Groups", c.said}
			if w.link(7, "header:x-authentik-uid", "alice"); c.role != "" {
				headers = []string{"Authorization", "Bearer " + w.as(7, c.role).token}
			}
			path := "/api/v1/runs/" + of.run.String()
			s := w.openStream(http.DefaultClient, path+"/events", headers...)
			require.Equal(t, heard{}, s.read())
			s.progress()
			w.exec(`UPDATE open_runs SET progress_text = 'page 5' WHERE id = $1`, of.run)
			require.Equal(t, "page 5", s.progress().ProgressText, "they see it by what is now")
			w.exec(c.takes)
			w.exec(`UPDATE open_runs SET progress_text = 'what they may not read' WHERE id = $1`, of.run)
			require.Equal(t, heard{}, s.read(), "it has ended")
			require.Equal(t, c.isStill, caller{world: w}.do("GET", "/me", nil, headers...).status == http.StatusOK)
			require.NotEqual(t, http.StatusOK, caller{world: w}.do("GET", "/runs/"+of.run.String(), nil, headers...).status)
		})
	}
}

func TestAGroupThatAnIssuerHasSaidIsKeptWhileARunIsWatched(t *testing.T) {
	t.Parallel()
	w := proxied(t)
	w.link(7, "header:x-authentik-uid", "alice")
	of := w.something(identity.Ownership{UserID: 8, Scope: "group", GroupID: "eng"})
	s := w.openStream(http.DefaultClient, "/api/v1/runs/"+of.run.String()+"/events", "X-Authentik-Uid", "alice", "X-Authentik-Groups", "Engineers")
	require.Equal(t, heard{}, s.read())
	require.Equal(t, "running", s.progress().Status)
	w.exec(`SELECT moves.cancel($1)`, of.run)
	require.Equal(t, "superseded", s.progress().Status)
}
