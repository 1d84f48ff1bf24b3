package db_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const (
	connector = `INSERT INTO connectors (name, type, user_id) VALUES ('docs', 'web', 1)`
	openRun   = `INSERT INTO open_runs (id, connector_id, user_id, type, trigger, due_at, started_at, config_version, dispatched_at)
		VALUES ('00000000-0000-0000-0000-000000000001', 1, 1, 'web', 'new', now(), now(), 1, now())`
	endedRun = `INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, config_version, completed_at, status)
		VALUES (gen_random_uuid(), 1, 'web', 'new', now(), now(), 1, now(), 'completed')`
	imported    = `INSERT INTO imported_connectors (connector_id, source, origin, key, variant) VALUES (1, `
	aCalendar   = `INSERT INTO calendars (name, time_zone, entries) VALUES ('cal', 'UTC', '[]')`
	operation   = `INSERT INTO operations (action, filter, user_id, role, matched, left_out) VALUES `
	anOperation = operation + `('sync', '{}', 1, 'user', 1, 0)`
	// asMover writes what only moves write, as the functions of schema moves do.
	asMover = connector + `; SET LOCAL echomind.moving = 'on'`
)

// window adds a blackout window.
func window(name, calendar, user, kind, except, mode, spread string) string {
	return `INSERT INTO blackouts (name, calendar, user_id, type, except_connectors, mode, spread_minutes) VALUES ('` + name + `', '` + calendar + `', ` +
		user + `, ` + kind + `, ` + except + `, ` + mode + `, ` + spread + `)`
}

// webhook adds a webhook with the id 1, and aDelivery a message to it.
func webhook(user, role, url, events, name string) string {
	return `INSERT INTO webhooks (id, user_id, role, url, events, name, secret) VALUES (1, ` + user + `, ` + role + `, ` + url + `, ` + events + `, ` + name + `, 'enc:v1:k:AAAA')`
}

func aDelivery(id, kind, body, state string) string {
	return `INSERT INTO webhook_deliveries (webhook_id, message_id, type, body, state, next_at, ended_at, last_error) VALUES (1, '` + id + `', '` + kind + `', ` + body + `, ` + state + `)`
}

var aWebhook = webhook("1", "'user'", "'https://x.example'", "'{failed}'", "''")

const uploadPlace = `INSERT INTO upload_places (connector_id, user_id) VALUES (1, 1)`

// uploadedFile adds a file.
func uploadedFile(name, bytes, sha256 string) string {
	return `INSERT INTO uploaded_files (place, name, object, bytes, sha256, uploaded_by) VALUES (1, ` + name + `, gen_random_uuid(), ` + bytes + `, ` + sha256 + `, 'test')`
}

// nonsense is, for each named constraint, a statement that it refuses after others have prepared the ground.
var nonsense = map[string]struct{ before, sql string }{
	"connector_types_name_is_the_systems": {"", `INSERT INTO connector_types (name, kind) VALUES ('lease_sweep', 'job')`},
	"connector_types_name_form":           {"", `INSERT INTO connector_types (name) VALUES ('Web-2')`},
	"connector_types_refresh_range":       {"", `INSERT INTO connector_types (name, default_refresh_minutes) VALUES ('a', -1)`},
	"connector_types_system_is_job":       {"", `INSERT INTO connector_types (name, system, max_concurrent_syncs) VALUES ('a', true, 0)`},
	"connector_types_system_has_no_cap":   {"", `INSERT INTO connector_types (name, kind, system) VALUES ('a', 'job', true)`},
	"connector_types_cap_range":           {"", `INSERT INTO connector_types (name, max_concurrent_syncs) VALUES ('a', -1)`},

	"refused_connectors_reach_form":      {"", `INSERT INTO refused_connectors (connector_id, type, config_version, over_at, reach, refused_by) VALUES (1, 'file', 1, now(), 'roots', '{aa}')`},
	"refused_connectors_refused_by_most": {"", `INSERT INTO refused_connectors (connector_id, type, config_version, over_at, reach, refused_by) VALUES (1, 'file', 1, now(), 'aa', '{}')`},
	"refused_connectors_tried_by_most":   {"", `INSERT INTO refused_connectors (connector_id, type, config_version, over_at, reach, refused_by, tried_by) VALUES (1, 'file', 1, now(), 'aa', '{aa}', array_fill('aa'::text, ARRAY[17]))`},
	"refused_connectors_again_range":     {"", `INSERT INTO refused_connectors (connector_id, type, config_version, over_at, reach, refused_by, again) VALUES (1, 'file', 1, now(), 'aa', '{aa}', -1)`},

	"event_bounds_one":          {"", `INSERT INTO event_bounds (one) VALUES (false)`},
	"event_bounds_status_first": {"", `UPDATE event_bounds SET most_status = most_verdicts + 1`},
	"event_publisher_noted":     {"", `UPDATE event_publisher SET noted_no = 1, noted_xid = NULL`},
	"event_publisher_one":       {"", `INSERT INTO event_publisher (one) VALUES (false)`},

	"upload_places_connector":      {uploadPlace, uploadPlace},
	"uploaded_files_name_form":     {"", uploadedFile(`E'a\nb'`, "1", "sha256('x')")},
	"uploaded_files_bytes_range":   {"", uploadedFile("'a'", "0", "sha256('x')")},
	"uploaded_files_sha256_length": {"", uploadedFile("'a'", "1", "'x'")},

	"owner_quotas_user_id_range":    {"", `INSERT INTO owner_quotas (user_id) VALUES (-1)`},
	"owner_quotas_connectors_range": {"", `INSERT INTO owner_quotas (user_id, max_connectors) VALUES (1, -1)`},
	"owner_quotas_syncs_range":      {"", `INSERT INTO owner_quotas (user_id, max_concurrent_syncs) VALUES (1, -1)`},
	"owner_quotas_documents_range":  {"", `INSERT INTO owner_quotas (user_id, max_documents) VALUES (1, -1)`},
	"owner_quotas_bytes_range":      {"", `INSERT INTO owner_quotas (user_id, max_bytes) VALUES (1, -1)`},
	"owner_quotas_share_of_one":     {"", `UPDATE owner_quotas SET max_concurrent_syncs = 3 WHERE user_id = 0`},

	"imported_connectors_source_known":   {"", imported + `'at', 'here', 'a', '')`},
	"imported_connectors_origin_length":  {"", imported + `'crontab', '', 'a', '')`},
	"imported_connectors_key_length":     {"", imported + `'crontab', 'here', '', '')`},
	"imported_connectors_variant_length": {"", imported + `'crontab', 'here', 'a', repeat('x', 601))`},
	"imported_connectors_known_once":     {imported + `'crontab', 'here', 'a', '')`, strings.Replace(imported, "(1,", "(2,", 1) + `'crontab', 'here', 'a', '')`},

	"run_after_accepts_known":  {"", `INSERT INTO run_after (connector_id, upstream_id, accepts) VALUES (1, 2, 'odd')`},
	"run_after_max_age_range":  {"", `INSERT INTO run_after (connector_id, upstream_id, max_age_minutes) VALUES (1, 2, 0)`},
	"run_after_timeout_range":  {"", `INSERT INTO run_after (connector_id, upstream_id, timeout_minutes) VALUES (1, 2, 525601)`},
	"run_after_not_itself":     {"", `INSERT INTO run_after (connector_id, upstream_id) VALUES (1, 1)`},
	"upstream_ends_lost_known": {"", `INSERT INTO upstream_ends (connector_id, lost) VALUES (1, 'away')`},

	"waiting_types_name_fkey":    {"", `INSERT INTO waiting_types VALUES ('ftp', true)`},
	"refresh_defaults_range":     {"", `UPDATE refresh_defaults SET minutes = -1`},
	"refresh_defaults_type_fkey": {"", `INSERT INTO refresh_defaults VALUES ('ftp', 1)`},

	"connector_types_keys_form":          {"", `INSERT INTO connector_types (name, concurrency_keys) VALUES ('a', '{a,b,c,d,e}')`},
	"connector_types_system_has_no_keys": {"", `INSERT INTO connector_types (name, kind, system, max_concurrent_syncs, concurrency_keys) VALUES ('a', 'job', true, 0, '{a}')`},
	"connectors_wait_at_rest":            {asMover, `UPDATE connectors SET next_sync_at = NULL, due_reason = NULL, waits_for_key = 'k'`},
	"connectors_keys_form":               {"", `INSERT INTO connectors (name, type, user_id, concurrency_keys) VALUES ('docs', 'web', 1, ARRAY['a b'])`},
	"concurrency_limits_key_form":        {"", `INSERT INTO concurrency_limits VALUES ('a b', 1)`},
	"concurrency_limits_most_range":      {"", `INSERT INTO concurrency_limits VALUES ('a', -1)`},

	"conditions_name_form":          {"", `INSERT INTO conditions (name, query) VALUES ('Never', 'SELECT false')`},
	"conditions_query_length":       {"", `INSERT INTO conditions (name, query) VALUES ('a', '')`},
	"conditions_users_number":       {"", `INSERT INTO conditions (name, query, user_ids) VALUES ('a', 'SELECT false', '{}')`},
	"conditions_timeout_range":      {"", `INSERT INTO conditions (name, query, timeout_ms) VALUES ('a', 'SELECT false', 2001)`},
	"blackouts_name_form":           {aCalendar, window("B", "cal", "NULL", "NULL", "NULL", "'skip'", "1")},
	"blackouts_calendar_known":      {"", window("b", "none", "NULL", "NULL", "NULL", "'skip'", "1")},
	"blackouts_user_id_positive":    {aCalendar, window("b", "cal", "0", "NULL", "NULL", "'skip'", "1")},
	"blackouts_type_known":          {aCalendar, window("b", "cal", "NULL", "'ftp'", "NULL", "'skip'", "1")},
	"blackouts_except_form":         {aCalendar, window("b", "cal", "NULL", "NULL", "'{}'", "'skip'", "1")},
	"blackouts_mode_known":          {aCalendar, window("b", "cal", "NULL", "NULL", "NULL", "'stop'", "1")},
	"blackouts_spread_range":        {aCalendar, window("b", "cal", "NULL", "NULL", "NULL", "'skip'", "1441")},
	"connector_types_provider_form": {"", `UPDATE connector_types SET provider = 'Big Co'`},

	"calendars_name_form":        {"", `INSERT INTO calendars (name, time_zone, entries) VALUES ('Feiertage', 'UTC', '[]')`},
	"calendars_time_zone_length": {"", `INSERT INTO calendars (name, time_zone, entries) VALUES ('a', '', '[]')`},
	"calendars_entries_list":     {"", `INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', '{}')`},
	"calendars_entries_size":     {"", `INSERT INTO calendars (name, time_zone, entries) VALUES ('a', 'UTC', jsonb_build_array(repeat('x', 65536)))`},
	"connectors_calendar_known":  {"", `INSERT INTO connectors (name, type, user_id, calendar) VALUES ('a', 'web', 1, 'none')`},
	"connectors_condition_known": {`INSERT INTO connector_types (name, kind) VALUES ('odd', 'job')`, `INSERT INTO connectors (name, type, user_id, condition) VALUES ('a', 'odd', 1, 'none')`},

	"connectors_name_form":              {connector, `UPDATE connectors SET name = ''`},
	"connectors_type_known":             {"", `INSERT INTO connectors (name, type, user_id) VALUES ('docs', 'ftp', 1)`},
	"connectors_id_positive":            {"", `INSERT INTO connectors (id, name, type, user_id) VALUES (0, 'docs', 'web', 1)`},
	"connectors_user_id_positive":       {connector, `UPDATE connectors SET user_id = 0`},
	"connectors_scope_known":            {connector, `UPDATE connectors SET scope = 'world'`},
	"connectors_scope_id_form":          {connector, `UPDATE connectors SET scope_id = 'a b'`},
	"connectors_owner":                  {connector, `UPDATE connectors SET user_id = NULL`},
	"connectors_system_has_no_scope_id": {"", `SELECT moves.add_system_job('a', 'a', 60); UPDATE connectors SET scope_id = 'g' WHERE scope = 'system'`},
	"connectors_group_has_scope_id":     {connector, `UPDATE connectors SET scope = 'group'`},
	"connectors_config_object":          {connector, `UPDATE connectors SET config = '[]'`},
	"connectors_config_size":            {connector, `UPDATE connectors SET config = jsonb_build_object('a', repeat('x', 65536))`},
	"connectors_config_depth": {connector, `UPDATE connectors SET config =
		jsonb_build_object('a', (repeat('[', 31) || repeat(']', 31))::jsonb)`},
	"connectors_listing_object":      {asMover, `UPDATE connectors SET listing = '1'`},
	"connectors_listing_size":        {asMover, `UPDATE connectors SET listing = jsonb_build_object('a', repeat('x', 65536))`},
	"connectors_state_object":        {asMover, `UPDATE connectors SET state = '1'`},
	"connectors_state_size":          {asMover, `UPDATE connectors SET state = jsonb_build_object('a', repeat('x', 65536))`},
	"connectors_refresh_range":       {connector, `UPDATE connectors SET refresh_freq_minutes = -1`},
	"connectors_cron_length":         {connector, `UPDATE connectors SET schedule_cron = ''`},
	"connectors_time_zone_length":    {connector, `UPDATE connectors SET time_zone = ''`},
	"connectors_dst_gap_known":       {connector, `UPDATE connectors SET dst_gap = 'first'`},
	"connectors_dst_overlap_known":   {connector, `UPDATE connectors SET dst_overlap = 'after'`},
	"connectors_one_schedule":        {connector, `UPDATE connectors SET schedule_cron = '* * * * *', refresh_freq_minutes = 1`},
	"connectors_max_retries_range":   {connector, `UPDATE connectors SET max_retries = 0`},
	"connectors_failure_count_range": {asMover, `UPDATE connectors SET failure_count = -1`},
	"connectors_due_reason_known":    {asMover, `UPDATE connectors SET due_reason = 'whim'`},
	"connectors_due_at_rest":         {asMover, `UPDATE connectors SET next_sync_at = now(), due_reason = NULL`},
	"connectors_in_flight_has_run":   {asMover, `UPDATE connectors SET status = 'PENDING', next_sync_at = NULL, due_reason = NULL`},
	"connectors_planned_at_rest":     {asMover, `UPDATE connectors SET status = 'DISABLED', needs_plan = true`},
	"connectors_status_known":        {asMover, `UPDATE connectors SET status = 'BROKEN'`},
	"connectors_last_sync_range":     {asMover, `UPDATE connectors SET last_sync_at = '-infinity'`},
	"connectors_next_sync_range":     {asMover, `UPDATE connectors SET next_sync_at = 'infinity', due_reason = 'retry'`},
	"connectors_slots_range":         {asMover, `UPDATE connectors SET slot_at = '20000-01-01 00:00+00'`},
	"connectors_planned_range":       {asMover, `UPDATE connectors SET planned_through = '1999-12-31 00:00+00'`},
	"connectors_trigger_range":       {connector, `UPDATE connectors SET trigger_requested_at = 'infinity'`},
	"connectors_created_range":       {"", `INSERT INTO connectors (name, type, user_id, created_at) VALUES ('docs', 'web', 1, '-infinity')`},
	"connectors_updated_range":       {asMover, `UPDATE connectors SET updated_at = '20000-01-01 00:00+00'`},

	"open_runs_one_per_connector":    {openRun, strings.Replace(openRun, "0001'", "0002'", 1)},
	"open_runs_trigger_known":        {openRun, `UPDATE open_runs SET trigger = 'whim'`},
	"open_runs_slot_scheduled":       {openRun, `UPDATE open_runs SET slot = now()`},
	"open_runs_stored_range":         {openRun, `UPDATE open_runs SET total = 1, stored = 2`},
	"open_runs_whole":                {openRun, `UPDATE open_runs SET total = 1, stored = 1`},
	"open_runs_new_state_size":       {openRun, `UPDATE open_runs SET new_state = jsonb_build_object('a', repeat('x', 65536))`},
	"open_runs_new_state_depth":      {openRun, `UPDATE open_runs SET new_state = jsonb_build_object('a', (repeat('[', 31) || repeat(']', 31))::jsonb)`},
	"open_runs_checkpoint_stored":    {openRun, `UPDATE open_runs SET checkpoint_no = 1`},
	"open_runs_counted_stored":       {openRun, `UPDATE open_runs SET counted_through = 1`},
	"open_runs_waiting_range":        {openRun, `UPDATE open_runs SET waiting = 1`},
	"open_runs_cut_drains":           {openRun, `UPDATE open_runs SET cut = 'slow'`},
	"open_runs_notes_range":          {openRun, `UPDATE open_runs SET notes = 1`},
	"open_runs_picked_up_by_a_try":   {openRun, `UPDATE open_runs SET picked_up_at = now()`},
	"runs_verdict_known":             {"", strings.Replace(endedRun, "'completed'", "'running'", 1)},
	"runs_missed_counted":            {"", strings.Replace(endedRun, "'completed'", "'missed'", 1)},
	"run_checkpoints_no_range":       {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), gen_random_uuid(), 0, '{}')`},
	"run_checkpoints_state_object":   {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), gen_random_uuid(), 1, '[]')`},
	"run_checkpoints_listing_object": {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), gen_random_uuid(), 1, '{}', '[]')`},
	"run_checkpoints_listing_size": {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), gen_random_uuid(), 1, '{}',
		jsonb_build_object('a', repeat('x', 65536)))`},
	"run_checkpoints_listing_depth": {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), gen_random_uuid(), 1, '{}',
		(repeat('{"a":', 102) || '1' || repeat('}', 102))::jsonb)`},
	"run_checkpoints_state_size": {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), gen_random_uuid(), 1,
		jsonb_build_object('a', repeat('x', 65536)))`},
	"run_checkpoints_state_depth": {"", `INSERT INTO run_checkpoints VALUES (gen_random_uuid(), gen_random_uuid(), 1,
		jsonb_build_object('a', (repeat('[', 31) || repeat(']', 31))::jsonb))`},
	"sightings_listing_range":     {"", `INSERT INTO sightings VALUES (1, gen_random_uuid(), 0, 'a', 1)`},
	"sightings_source_id_length":  {"", `INSERT INTO sightings VALUES (1, gen_random_uuid(), 1, '', 1)`},
	"sightings_no_range":          {"", `INSERT INTO sightings VALUES (1, gen_random_uuid(), 1, 'a', 0)`},
	"run_messages_no_range":       {"", `INSERT INTO run_messages (try_id, no) VALUES (gen_random_uuid(), 0)`},
	"run_messages_given_up_known": {"", `INSERT INTO run_messages (try_id, no, given_up) VALUES (gen_random_uuid(), 1, 'lost')`},

	"documents_source_id_length": {"", `INSERT INTO documents (config_version, connector_id, source_id) VALUES (1, 1, '')`},
	"documents_status_known":     {"", `INSERT INTO documents (config_version, connector_id, source_id, status) VALUES (1, 1, 'a', 'odd')`},
	"documents_source":           {"", `INSERT INTO documents (config_version, connector_id, source_id) VALUES (1, 1, 'a'), (1, 1, 'a')`},
	"documents_chunks_named":     {"", `INSERT INTO documents (config_version, connector_id, source_id, first_no) VALUES (1, 1, 'a', 1)`},
	"documents_text_is_named":    {"", `INSERT INTO documents (config_version, connector_id, source_id, text_bytes) VALUES (1, 1, 'a', 1)`},
	"documents_text_bytes_range": {"", `INSERT INTO documents (config_version, connector_id, source_id, text_bytes) VALUES (1, 1, 'a', -1)`},
	"documents_deleted_has_no_token": {"", `INSERT INTO documents (config_version, connector_id, source_id, deleted_at, version_token)
		VALUES (1, 1, 'a', now(), 't')`},
	"documents_deleted_has_no_memo": {"", `INSERT INTO documents (config_version, connector_id, source_id, deleted_at, memo)
		VALUES (1, 1, 'a', now(), '1')`},
	"documents_memo_size": {"", `INSERT INTO documents (config_version, connector_id, source_id, memo) VALUES (1, 1, 'a',
		to_json(repeat('x', 8191)))`},
	"documents_memo_has_no_nul": {"", `INSERT INTO documents (config_version, connector_id, source_id, memo) VALUES (1, 1, 'a', '["\\\u0000"]')`},
	"documents_failed_says_why": {"", `INSERT INTO documents (config_version, connector_id, source_id, status) VALUES (1, 1, 'a', 'failed')`},

	"connector_secrets_name_form":     {"", `INSERT INTO connector_secrets (connector_id, name, envelope) VALUES (1, 'A b', 'enc:v1:k:AA')`},
	"connector_secrets_envelope_form": {"", `INSERT INTO connector_secrets (connector_id, name, envelope) VALUES (1, 'a', 'plain')`},
	"connector_secrets_envelope_size": {"", `INSERT INTO connector_secrets (connector_id, name, envelope)
		VALUES (1, 'a', 'enc:v1:k:' || repeat('A', 65536))`},
	"connector_types_kind_known": {"", `INSERT INTO connector_types (name, kind) VALUES ('odd', 'odd')`},
	"passed_slots_range": {"", `INSERT INTO passed_slots (connector_id, type, config_version, schedule_cron, time_zone, after, through, reason)
		VALUES (1, 'web', 1, '* * * * *', 'UTC', now(), 'infinity', 'a')`},
	"search_index_single":             {`INSERT INTO search_index (name) VALUES ('a')`, `INSERT INTO search_index (single, name) VALUES (false, 'b')`},
	"search_index_review_from_length": {"", `INSERT INTO search_index (name, review_from) VALUES ('a', '')`},
	"search_index_name_length":        {"", `INSERT INTO search_index (name) VALUES ('')`},
	"resource_locks_key_form": {"", `INSERT INTO resource_locks (key, epoch, run_id, connector_id, ttl, acquired_at, expires_at, try_id, ask)
		VALUES ('a b', 1, gen_random_uuid(), 1, '1 s', now(), now(), gen_random_uuid(), 1)`},
	"lock_waiters_once": {"", `INSERT INTO lock_waiters (key, run_id, connector_id, since, expires_at)
		SELECT 'a', '00000000-0000-0000-0000-000000000001', 1, now(), now() FROM generate_series(1, 2)`},
	"operations_action_known":              {"", operation + `('burn', '{}', 1, 'user', 1, 0)`},
	"operations_filter_form":               {"", operation + `('sync', '[]', 1, 'user', 1, 0)`},
	"operations_user_id_positive":          {"", operation + `('sync', '{}', 0, 'user', 1, 0)`},
	"operations_role_known":                {"", operation + `('sync', '{}', 1, 'root', 1, 0)`},
	"operations_matched_range":             {"", operation + `('sync', '{}', 1, 'user', 0, 0)`},
	"operations_note_length":               {anOperation, `UPDATE operations SET note = repeat('x', 2001)`},
	"operations_state_known":               {anOperation, `UPDATE operations SET state = 'odd'`},
	"operations_error_length":              {anOperation, `UPDATE operations SET error = repeat('x', 2001)`},
	"operations_place_length":              {anOperation, `UPDATE operations SET place = repeat('x', 1001)`},
	"operations_ended_has_no_next":         {anOperation, `UPDATE operations SET ended_at = now()`},
	"operation_results_known":              {"", `INSERT INTO operation_results VALUES (1, 1, 'odd', 'x')`},
	"operation_results_reason_length":      {"", `INSERT INTO operation_results VALUES (1, 1, 'failed', repeat('x', 1001))`},
	"users_user_id_positive":               {"", `INSERT INTO users (user_id) VALUES (0)`},
	"users_role_known":                     {"", `INSERT INTO users VALUES (1, 'root')`},
	"group_members_user_id_positive":       {"", `INSERT INTO group_members VALUES (0, 'g')`},
	"group_members_group_id_form":          {"", `INSERT INTO group_members VALUES (1, 'a b')`},
	"request_keys_key_length":              {"", `INSERT INTO request_keys (user_id, key, asked) VALUES (1, '', '')`},
	"request_keys_done_length":             {"", `INSERT INTO request_keys (user_id, key, asked, done) VALUES (1, 'k', '', repeat('x', 201))`},
	"identities_issuer_length":             {"", `INSERT INTO identities VALUES ('', 'x', 1)`},
	"identities_subject_length":            {"", `INSERT INTO identities VALUES ('x', repeat('x', 256), 1)`},
	"identities_user_id_positive":          {"", `INSERT INTO identities VALUES ('x', 'x', 0)`},
	"access_tokens_user_id_positive":       {"", `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES (0, 'user', '{read}', sha256(''), 'x')`},
	"access_tokens_name_length":            {"", `INSERT INTO access_tokens (name, user_id, role, scopes, secret_sha256, created_by) VALUES (repeat('x', 201), 1, 'user', '{read}', sha256(''), 'x')`},
	"access_tokens_role_known":             {"", `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES (1, 'root', '{read}', sha256(''), 'x')`},
	"access_tokens_scopes_known":           {"", `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES (1, 'user', '{}', sha256(''), 'x')`},
	"access_tokens_secret_length":          {"", `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES (1, 'user', '{read}', 'secret', 'x')`},
	"access_tokens_made_depth":             {"", `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by, made_through) VALUES (1, 'user', '{read}', sha256(''), 'x', '{1,2,3,4,5,6,7,8,9}')`},
	"sign_in_links_code_length":            {"", `INSERT INTO sign_in_links (code_sha256, token_id, expires_at) VALUES ('code', 1, clock_timestamp())`},
	"sign_in_links_expires_soon":           {"", `INSERT INTO sign_in_links (code_sha256, token_id, expires_at) VALUES (sha256(''), 1, clock_timestamp() + interval '2 hours')`},
	"access_tokens_expires_range":          {"", `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by, expires_at) VALUES (1, 'user', '{read}', sha256(''), 'x', 'infinity')`},
	"badges_secret":                        {"", `INSERT INTO badges (connector_id, added_version, secret_sha256) VALUES (1, 1, sha256('')), (2, 2, sha256(''))`},
	"badges_secret_length":                 {"", `INSERT INTO badges (connector_id, added_version, secret_sha256) VALUES (1, 1, 'secret')`},
	"webhooks_user_id_positive":            {"", webhook("0", "'user'", "'https://x.example'", "'{failed}'", "''")},
	"webhooks_role_known":                  {"", webhook("1", "'boss'", "'https://x.example'", "'{failed}'", "''")},
	"webhooks_name_length":                 {"", webhook("1", "'user'", "'https://x.example'", "'{failed}'", "repeat('x', 201)")},
	"webhooks_url_form":                    {"", webhook("1", "'user'", "'https://user@x.example'", "'{failed}'", "''")},
	"webhooks_events_known":                {"", webhook("1", "'user'", "'https://x.example'", "'{recovered}'", "''")},
	"webhooks_disabled_reason_of_disabled": {aWebhook, `UPDATE webhooks SET disabled_reason = 'x'`},
	"webhooks_secret_sealed":               {aWebhook, `UPDATE webhooks SET secret = 'whsec_plain'`},
	"webhooks_old_secret_sealed":           {aWebhook, `UPDATE webhooks SET old_secret = 'whsec_plain', old_secret_until = now()`},
	"webhooks_old_secret_ends":             {aWebhook, `UPDATE webhooks SET old_secret = secret`},
	"webhook_turns_webhook_id_fkey":        {"", `INSERT INTO webhook_turns (webhook_id) VALUES (1)`},
	"webhook_states_webhook_id_fkey":       {"", `INSERT INTO webhook_states VALUES (1, 1, 'failed')`},
	"webhook_states_known":                 {aWebhook, `INSERT INTO webhook_states VALUES (1, 1, 'ok')`},
	"webhook_deliveries_webhook_id_fkey":   {"", aDelivery("msg_"+strings.Repeat("a", 20), "webhook.test", "'{}'", "'pending', now(), NULL, NULL")},
	"webhook_deliveries_message_id_form":   {aWebhook, aDelivery("a", "webhook.test", "'{}'", "'pending', now(), NULL, NULL")},
	"webhook_deliveries_type_known":        {aWebhook, aDelivery("msg_"+strings.Repeat("a", 20), "odd", "'{}'", "'pending', now(), NULL, NULL")},
	"webhook_deliveries_body_size":         {aWebhook, aDelivery("msg_"+strings.Repeat("a", 20), "webhook.test", "repeat('x', 16385)", "'pending', now(), NULL, NULL")},
	"webhook_deliveries_state_known":       {aWebhook, aDelivery("msg_"+strings.Repeat("a", 20), "webhook.test", "'{}'", "'odd', NULL, now(), NULL")},
	"webhook_deliveries_error_length":      {aWebhook, aDelivery("msg_"+strings.Repeat("a", 20), "webhook.test", "'{}'", "'failed', NULL, now(), repeat('x', 501)")},
	"webhook_deliveries_waits":             {aWebhook, aDelivery("msg_"+strings.Repeat("a", 20), "webhook.test", "'{}'", "'failed', now(), now(), NULL")},
	"webhook_looks_one":                    {"", `INSERT INTO webhook_looks (one) VALUES (false)`},
	"webhook_looks_phase_known":            {"", `UPDATE webhook_looks SET phase = 4`},
	"status_events_freshness_known":        {"", `INSERT INTO status_events (connector_id, type, was, status, freshness) VALUES (1, 'web', 'ACTIVE', 'ACTIVE', 'late')`},
	"audit_source_known":                   {"", `INSERT INTO audit (source, login, person, action, object_id) VALUES ('rumour', 'x', 'x', 'x', '1')`},
	"audit_note_length":                    {"", `INSERT INTO audit (source, login, person, action, object_id, note) VALUES ('sql', 'x', 'x', 'x', '1', repeat('x', 2001))`},
	"audit_request_id_length":              {"", `INSERT INTO audit (source, login, person, action, object_id, request_id) VALUES ('sql', 'x', 'x', 'x', '1', repeat('x', 201))`},
	"audit_key_single":                     {"", `UPDATE audit_key SET single = false`},
	"provider_quotas_account_length":       {"", `INSERT INTO provider_quotas (account, tokens, refilled_at) VALUES ('', 0, now())`},
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
}

func TestNoConstraintIsWithoutATest(t *testing.T) {
	b := newBase(t)
	rows, err := b.conn.Query(t.Context(), `SELECT conname::text FROM pg_constraint WHERE conrelid IN
		(SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace) AND conrelid <> 'goose_db_version'::regclass
		AND contype <> 'p' AND conparentid = 0 AND NOT conrelid IN (SELECT inhrelid FROM pg_inherits) ORDER BY 1`)
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
		b.refused("connectors_status_move", `INSERT INTO connectors (name, type, user_id, status, run_id)
			VALUES ('docs', 'web', 1, $1, gen_random_uuid())`, status)
	}
	b.refused("connectors_trigger_disabled", `INSERT INTO connectors (name, type, user_id, status, trigger_requested_at)
		VALUES ('docs', 'web', 1, 'DISABLED', now())`)
}
