package db_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const (
	connector = `INSERT INTO connectors (name, type, user_id) VALUES ('docs', 'web', 1)`
	ofRun     = `INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, due_at, started_at, config_version) VALUES
		('00000000-0000-0000-0000-000000000001', 1, 'j', 'new', now(), now(), 1)`
)

// nonsense is, for each named constraint, a statement that it refuses after others have prepared the ground.
var nonsense = map[string]struct{ before, sql string }{
	"connector_types_name_form":     {"", `INSERT INTO connector_types (name) VALUES ('Web-2')`},
	"connector_types_refresh_range": {"", `INSERT INTO connector_types (name, default_refresh_minutes) VALUES ('a', -1)`},
	"connector_types_cap_range":     {"", `INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ('a', -1)`},

	"connectors_name_form":          {connector, `UPDATE connectors SET name = ''`},
	"connectors_type_known":         {"", `INSERT INTO connectors (name, type, user_id) VALUES ('docs', 'ftp', 1)`},
	"connectors_user_id_positive":   {connector, `UPDATE connectors SET user_id = 0`},
	"connectors_scope_known":        {connector, `UPDATE connectors SET scope = 'world'`},
	"connectors_scope_id_form":      {connector, `UPDATE connectors SET scope_id = 'a b'`},
	"connectors_group_has_scope_id": {connector, `UPDATE connectors SET scope = 'group'`},
	"connectors_config_object":      {connector, `UPDATE connectors SET config = '[]'`},
	"connectors_config_size":        {connector, `UPDATE connectors SET config = jsonb_build_object('a', repeat('x', 65536))`},
	"connectors_config_depth": {connector, `UPDATE connectors SET config =
		jsonb_build_object('a', (repeat('[', 101) || repeat(']', 101))::jsonb)`},
	"connectors_state_object":          {connector, `UPDATE connectors SET state = '1'`},
	"connectors_state_size":            {connector, `UPDATE connectors SET state = jsonb_build_object('a', repeat('x', 65536))`},
	"connectors_refresh_range":         {connector, `UPDATE connectors SET refresh_freq_minutes = -1`},
	"connectors_cron_length":           {connector, `UPDATE connectors SET schedule_cron = ''`},
	"connectors_time_zone_length":      {connector, `UPDATE connectors SET time_zone = ''`},
	"connectors_one_schedule":          {connector, `UPDATE connectors SET schedule_cron = '* * * * *', refresh_freq_minutes = 1`},
	"connectors_max_retries_range":     {connector, `UPDATE connectors SET max_retries = 0`},
	"connectors_failure_count_range":   {connector, `UPDATE connectors SET failure_count = -1`},
	"connectors_due_reason_known":      {connector, `UPDATE connectors SET due_reason = 'whim'`},
	"connectors_due_at_rest":           {connector, `UPDATE connectors SET next_sync_at = now(), due_reason = NULL`},
	"connectors_in_flight_has_session": {connector, `UPDATE connectors SET status = 'PENDING', dispatched_at = now()`},
	"connectors_pending_has_dispatch": {connector, `UPDATE connectors SET status = 'PENDING', next_sync_at = NULL,
		chunking_session = gen_random_uuid()`},
	// The trigger that refuses moves which do not exist comes first.
	"connectors_status_known": {connector + `; ALTER TABLE connectors DISABLE TRIGGER USER`,
		`UPDATE connectors SET status = 'BROKEN'`},
	"connectors_lease_only_syncing": {connector, `UPDATE connectors SET lease_owner = gen_random_uuid(), lease_expires_at = now()`},
	"connectors_lease_whole": {connector + `; UPDATE connectors SET status = 'PENDING', dispatched_at = now(),
		chunking_session = gen_random_uuid(), next_sync_at = NULL`,
		`UPDATE connectors SET status = 'SYNCING', lease_owner = gen_random_uuid()`},

	"scheduler_runs_trigger_known":     {ofRun, `UPDATE scheduler_runs SET trigger = 'whim'`},
	"scheduler_runs_slot_scheduled":    {ofRun, `UPDATE scheduler_runs SET slot = now()`},
	"scheduler_runs_status_known":      {ofRun, `UPDATE scheduler_runs SET status = 'lost', completed_at = now()`},
	"scheduler_runs_stored_range":      {ofRun, `UPDATE scheduler_runs SET total = 1, stored = 2`},
	"scheduler_runs_ended":             {ofRun, `UPDATE scheduler_runs SET status = 'completed'`},
	"scheduler_runs_state_freed":       {ofRun, `UPDATE scheduler_runs SET status = 'completed', completed_at = now(), new_state = '{}'`},
	"scheduler_runs_missed_counted":    {ofRun, `UPDATE scheduler_runs SET status = 'missed', completed_at = now()`},
	"scheduler_runs_new_state_size":    {ofRun, `UPDATE scheduler_runs SET new_state = jsonb_build_object('a', repeat('x', 65536))`},
	"scheduler_runs_checkpoint_stored": {ofRun, `UPDATE scheduler_runs SET checkpoint_no = 1`},
	"scheduler_runs_notes_range":       {ofRun, `UPDATE scheduler_runs SET notes = 1`},
	"run_checkpoints_no_range":         {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), 0, '{}')`},
	"run_checkpoints_state_object":     {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), 1, '[]')`},
	"run_checkpoints_state_size": {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), 1,
		jsonb_build_object('a', repeat('x', 65536)))`},
	"sightings_listing_range":    {"", `INSERT INTO sightings VALUES (1, gen_random_uuid(), 0, 'a', 1)`},
	"sightings_source_id_length": {"", `INSERT INTO sightings VALUES (1, gen_random_uuid(), 1, '', 1)`},
	"sightings_no_range":         {"", `INSERT INTO sightings VALUES (1, gen_random_uuid(), 1, 'a', 0)`},
	"run_messages_no_range":      {"", `INSERT INTO run_messages VALUES (gen_random_uuid(), 0, 1)`},

	"documents_source_id_length": {"", `INSERT INTO documents (connector_id, source_id) VALUES (1, '')`},
	"documents_status_known":     {"", `INSERT INTO documents (connector_id, source_id, status) VALUES (1, 'a', 'odd')`},
	"documents_source":           {"", `INSERT INTO documents (connector_id, source_id) VALUES (1, 'a'), (1, 'a')`},
	"documents_chunks_named":     {"", `INSERT INTO documents (connector_id, source_id, first_no) VALUES (1, 'a', 1)`},
	"documents_deleted_has_no_token": {"", `INSERT INTO documents (connector_id, source_id, deleted_at, version_token)
		VALUES (1, 'a', now(), 't')`},
	"documents_failed_says_why": {"", `INSERT INTO documents (connector_id, source_id, status) VALUES (1, 'a', 'failed')`},

	"connector_secrets_name_form":     {"", `INSERT INTO connector_secrets (connector_id, name, envelope) VALUES (1, 'A b', 'enc:v1:k:AA')`},
	"connector_secrets_envelope_form": {"", `INSERT INTO connector_secrets (connector_id, name, envelope) VALUES (1, 'a', 'plain')`},
	"connector_secrets_envelope_size": {"", `INSERT INTO connector_secrets (connector_id, name, envelope)
		VALUES (1, 'a', 'enc:v1:k:' || repeat('A', 65536))`},
	"search_index_single":            {`INSERT INTO search_index (name) VALUES ('a')`, `INSERT INTO search_index (single, name) VALUES (false, 'b')`},
	"search_index_name_length":       {"", `INSERT INTO search_index (name) VALUES ('')`},
	"provider_quotas_account_length": {"", `INSERT INTO provider_quotas (account, tokens, refilled_at) VALUES ('', 0, now())`},
}

func TestEveryNamedConstraintRefusesItsNonsense(t *testing.T) {
	b := newBase(t)
	for name, c := range nonsense {
		b.exec(`BEGIN`)
		for _, sql := range strings.Split(c.before, "; ") {
			b.exec(sql)
		}
		b.refused(name, c.sql)
		b.exec(`ROLLBACK`)
	}
	for index, sql := range map[string]string{
		"scheduler_runs_open": ofRun + `, ('00000000-0000-0000-0000-000000000002', 1, 'j', 'new', now(), now(), 1)`,
		"scheduler_runs_slot": `INSERT INTO scheduler_runs (id, connector_id, job_name, trigger, slot, due_at, started_at,
			completed_at, status, config_version) SELECT gen_random_uuid(), 1, 'j', 'schedule', now(), now(), now(), now(),
			'completed', 1 FROM generate_series(1, 2)`,
	} {
		b.refused(index, sql)
	}
}

func TestNoConstraintIsWithoutATest(t *testing.T) {
	b := newBase(t)
	rows, err := b.conn.Query(t.Context(), `SELECT conname::text FROM pg_constraint WHERE conrelid IN
		(SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace) AND conrelid <> 'goose_db_version'::regclass
		AND contype <> 'p' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, tested := nonsense[name]; !tested {
			t.Errorf("constraint %s has no row that it refuses", name)
		}
	}
	for name := range nonsense {
		if !slices.Contains(names, name) {
			t.Errorf("there is no constraint %s", name)
		}
	}
}

func TestAConnectorBeginsAtRest(t *testing.T) {
	b := newBase(t)
	for _, status := range []string{"PENDING", "SYNCING", "ERROR"} {
		b.refused("connectors_status_move", `INSERT INTO connectors (name, type, user_id, status, chunking_session, dispatched_at)
			VALUES ('docs', 'web', 1, $1, gen_random_uuid(), now())`, status)
	}
	b.refused("connectors_trigger_disabled", `INSERT INTO connectors (name, type, user_id, status, trigger_requested_at)
		VALUES ('docs', 'web', 1, 'DISABLED', now())`)
}
