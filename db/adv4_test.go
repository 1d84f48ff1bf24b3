package db_test

import (
	"testing"
)

// The command line changes a connector, and then whom it runs after; plain SQL writes the latter only.
func TestAWriterOfAChainAndWhoChangesItsConnectorDoNotDeadlock(t *testing.T) {
	b := newBase(t)
	ids := b.manual(3)
	b.exec(runAfter, ids[1], ids[0])
	changes := b.other()
	changes.exec(`BEGIN`)
	changes.exec(`UPDATE connectors SET name = 'mine' WHERE id = $1`, ids[1])
	wrote := b.waitsPlain(`UPDATE run_after SET timeout_minutes = 5 WHERE connector_id = $1`, ids[1])
	if _, err := changes.conn.Exec(t.Context(), `DELETE FROM run_after WHERE connector_id = $1`, ids[1]); err != nil {
		t.Error(err)
	}
	_, _ = changes.conn.Exec(t.Context(), `COMMIT`)
	if err := wrote(); err != nil {
		t.Error(err)
	}
}
