package db_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

func TestDeadLettersAreReplayedAndDroppedForSuperadminsAlone(t *testing.T) {
	b := newBase(t)
	b.exec(addOf, 7, 1)
	for role, want := range map[identity.Role]string{identity.User: "42501", identity.Admin: "42501", identity.Superadmin: ""} {
		for _, sql := range []string{`SELECT api.replay_letter(1, 'document.process', 1, '{a}')`, `SELECT api.drop_letter(1, 'document.process', 1, '{a}')`,
			`SELECT api.replay_letters('{1,2}', '{document.process,document.process}', '{a,""}', 1, NULL)`, `SELECT api.drop_letters('{1,2}', '{document.process,document.process}', '{a,""}', 1)`} {
			b.serves(identity.Who{UserID: 7, Role: role}, func(tx pgx.Tx) {
				if got := tries(b, tx, sql); got != want {
					t.Errorf("%s as %s: %q, want %q", sql, role, got, want)
				}
			})
		}
	}
}

func TestWhatTheCommandLineDoesWithDeadLettersIsInTheAuditOneEntryEach(t *testing.T) {
	b := newBase(t)
	id := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('notes', 'file', 1) RETURNING id`)
	b.exec(`SELECT moves.note_letters('deadletters.drop', '{7,8}', '{document.process,connector.sync.file}', '{a.md,""}', $1)`, id)
	got := one[string](b, `SELECT string_agg(concat_ws(' ', action, object_id, connector_id = $1, before ->> 'subject', before ->> 'source_ids'), '; ' ORDER BY id) FROM audit WHERE action LIKE 'deadletters%'`, id)
	want := `deadletters.drop 7 t document.process ["a.md"]; deadletters.drop 8 t connector.sync.file []`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLettersOfOneRequestAskForOneSyncUntilARunPicksItUp(t *testing.T) {
	b := newBase(t)
	b.exec(addOf, 7, 1)
	const replay = `SELECT api.replay_letters('{1}', '{document.process}', '{a}', 1, $1)`
	b.serves(identity.Who{UserID: 7, Role: identity.Superadmin}, func(tx pgx.Tx) {
		asked := func(before *time.Time) (at time.Time) {
			if err := tx.QueryRow(b.Context(), replay, before).Scan(&at); err != nil {
				t.Fatal(err)
			}
			return at
		}
		first := asked(nil)
		if again := asked(&first); !again.Equal(first) {
			t.Errorf("asked at %s once more, want %s alone", again, first)
		}
		if another := asked(nil); !another.After(first) {
			t.Errorf("another request asked at %s, want after %s", another, first)
		}
		if late := asked(&first); !late.After(first) {
			t.Errorf("a sync that was picked up is taken for one that was not: %s", late)
		}
	})
}
