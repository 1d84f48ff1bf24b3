package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

func TestDeadLettersAreReplayedAndDroppedForSuperadminsAlone(t *testing.T) {
	b := newBase(t)
	b.exec(addOf, 7, 1)
	for role, want := range map[identity.Role]string{identity.User: "42501", identity.Admin: "42501", identity.Superadmin: ""} {
		for _, sql := range []string{`SELECT api.replay_letter(1, 'document.process', 1, '{a}')`, `SELECT api.drop_letter(1, 'document.process', 1, '{a}')`} {
			b.serves(identity.Who{UserID: 7, Role: role}, func(tx pgx.Tx) {
				if got := tries(b, tx, sql); got != want {
					t.Errorf("%s as %s: %q, want %q", sql, role, got, want)
				}
			})
		}
	}
}
