package db_test

import "testing"

// A request holds one of the views that the migration replaces, and then reads another: the migration holds none while it waits for one.
func TestAReaderOfSeveralViewsIsInNoDeadlockWithTheirMigration(t *testing.T) {
	for first, second := range map[string]string{"connector_evidence": "api.connectors", "api.connectors": "connector_evidence"} {
		t.Run(first, func(t *testing.T) {
			b := newBase(t)
			b.before(49)
			reader := connectTo(t, b.url)
			reader.exec(`BEGIN`)
			reader.exec(`SELECT FROM ` + first)
			up := b.migrationWaits()
			reader.exec(`SELECT FROM ` + second)
			reader.exec(`COMMIT`)
			if err := <-up; err != nil {
				t.Error(err)
			}
		})
	}
}
