package db_test

import (
	"testing"
)

// envelopes of two keys.
const (
	sealedOld = `enc:v1:old:AAAA-_aaaa`
	sealedNew = `enc:v1:new:BBBB-_bbbb`
)

// reseal runs a statement as `echomind secrets rotate` does.
func (b *base) reseal(sql string, args ...any) {
	b.Helper()
	b.exec(`BEGIN`)
	b.exec(`SELECT set_config('echomind.resealing', 'on', true)`)
	b.exec(sql, args...)
	b.exec(`COMMIT`)
}

func TestSealingAnewIsNoChangeOfAConnectorAndAnythingElseStaysOne(t *testing.T) {
	b := newBase(t)
	secrets := func(envelope string) string {
		return `{"client_id":"app","refresh_token":"` + envelope + `","nested":{"key":"` + envelope + `"}}`
	}
	const reseal = `UPDATE connectors SET config = $2 WHERE id = $1`
	for _, status := range []string{"ACTIVE", "PENDING", "SYNCING", "ERROR", "DISABLED"} {
		id := b.in(status)
		b.exec(`ALTER TABLE connectors DISABLE TRIGGER connectors_user_update`)
		b.exec(reseal, id, secrets(sealedOld))
		b.exec(`UPDATE connectors SET fresh_within_minutes = 60, state = '{"cursor": 7}' WHERE id = $1`, id)
		b.exec(`ALTER TABLE connectors ENABLE TRIGGER connectors_user_update`)
		const rest = `SELECT (to_jsonb(c) - 'config')::text FROM connectors c WHERE id = $1`
		before := one[string](b, rest, id)
		b.reseal(reseal, id, secrets(sealedNew))
		if after := one[string](b, rest, id); after != before {
			t.Errorf("%s: sealing anew changed\n%s\nto\n%s", status, before, after)
		}
		b.holds(id, `c.config->>'refresh_token' = '`+sealedNew+`'`)
	}

	// What is not only that is a change, setting or not: it fences and releases as ever.
	for name, config := range map[string]string{
		"another field as well":   `{"client_id":"evil","refresh_token":"` + sealedOld + `"}`,
		"plaintext":               `{"client_id":"app","refresh_token":"plain"}`,
		"an envelope that is new": `{"client_id":"app","refresh_token":"` + sealedOld + `","more":"` + sealedOld + `"}`,
		"one that is gone":        `{"client_id":"app"}`,
	} {
		id := b.in("SYNCING")
		b.reseal(reseal, id, `{"client_id":"app","refresh_token":"`+sealedOld+`"}`)
		version := one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id)
		b.syncing(id)
		b.reseal(reseal, id, config)
		if after := one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id); after == version {
			t.Errorf("%s: it passed as sealing anew", name)
		}
		b.holds(id, `c.status = 'ACTIVE' AND c.run_id IS NULL AND r.status = 'superseded' AND c.due_reason = 'changed'`)
	}
	id := b.in("SYNCING")
	b.reseal(reseal, id, `{"client_id":"app","refresh_token":"`+sealedOld+`"}`)
	version := one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id)
	b.reseal(`UPDATE connectors SET config = $2, user_id = 2 WHERE id = $1`, id, `{"client_id":"app","refresh_token":"`+sealedNew+`"}`)
	if one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id) == version {
		t.Error("another owner passed as sealing anew")
	}
	b.pending(id)
	b.exec(`BEGIN`)
	b.exec(`SELECT set_config('echomind.resealing', 'on', true)`)
	b.refused("connectors_moved_only", `UPDATE connectors SET status = 'ERROR' WHERE id = $1`, id)
	b.exec(`ROLLBACK`)
	b.exec(`UPDATE connectors SET config = $2 WHERE id = $1`, id, `{"client_id":"app","refresh_token":"`+sealedOld+`"}`)
	b.holds(id, `c.status = 'ACTIVE' AND r.id IS NOT NULL`) // the setting ended with its transaction
}

func TestTheTableOfSecretsTakesEnvelopesOnlyAndLosesThemWithTheirConnector(t *testing.T) {
	b := newBase(t)
	id := b.connector()
	const insert = `INSERT INTO connector_secrets (connector_id, name, envelope) VALUES ($1, $2, $3)`
	b.refused("connector_secrets_envelope_form", insert, id, "rotated.refresh_token", "1//0g-plain")
	b.refused("connector_secrets_name_form", insert, id, "No Name", sealedOld)
	b.exec(insert, id, "rotated.refresh_token", sealedOld)
	b.exec(insert, b.connector(), "rotated.refresh_token", sealedOld)
	b.exec(`DELETE FROM connectors WHERE id = $1`, id)
	if left := one[int](b, `SELECT count(*) FROM connector_secrets`); left != 1 {
		t.Errorf("%d are left, want the other connector's", left)
	}
}
