-- +goose Up
-- Who may do what is a grant. The roles are groups without a login, of the whole cluster; a program's login is a member of
-- one of them. docs/operations.md says how to make the logins.
-- +goose StatementBegin
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['echomind_scheduler', 'echomind_worker', 'echomind_semantic', 'echomind_console',
        'echomind_subscriber', 'echomind_reader', 'echomind_api', 'echomind_administrator', 'echomind_conditions'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;   -- another database of the cluster has it
        END;
    END LOOP;
END $$;
-- +goose StatementEnd

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA moves FROM PUBLIC;
-- Who may call a trigger's function may put it on a temporary table, and it runs with the owner's rights there as well.
REVOKE ALL ON FUNCTION connectors_user_insert(), connectors_user_update(), connectors_user_delete(),
    connectors_count(), documents_count(), connector_secrets_forget(), search_index_note(),
    connectors_refuse_system(), connectors_audit(), connectors_by(), audit_row(), audit_refuse(), connectors_given(), connectors_name_keys(), access_tokens_stay_revoked(), connector_secrets_audit(), users_revoke_tokens(), removed_users_revoke(), identities_link(),
    provider_quota_take(text, double precision, double precision, integer) FROM PUBLIC;
GRANT USAGE ON SCHEMA moves TO echomind_scheduler, echomind_worker, echomind_semantic, echomind_console, echomind_subscriber;
GRANT USAGE ON SCHEMA public TO echomind_scheduler, echomind_worker, echomind_semantic, echomind_console, echomind_subscriber,
    echomind_reader;
-- Every program looks whether the schema is one that it works on.
GRANT SELECT ON goose_db_version TO echomind_scheduler, echomind_worker, echomind_semantic, echomind_console,
    echomind_subscriber, echomind_reader, echomind_administrator;

-- Ages of others' transactions, for the metrics; without it they count as none. Only some owners may grant it.
-- +goose StatementBegin
DO $$
BEGIN
    GRANT pg_read_all_stats TO echomind_scheduler;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END $$;
-- +goose StatementEnd

-- Conditions belong to a role that may read what operators grant it. The role that migrates hands them over, and is a member for that.
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT pg_has_role('echomind_conditions', 'MEMBER') THEN
        GRANT echomind_conditions TO CURRENT_USER;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'the owner of the schema is not a member of role echomind_conditions' USING ERRCODE = 'insufficient_privilege',
        HINT = format('As a superuser: GRANT echomind_conditions TO %I. See docs/operations.md.', current_user);
END $$;
-- +goose StatementEnd
GRANT USAGE, CREATE ON SCHEMA condition_queries TO echomind_conditions;
GRANT USAGE ON SCHEMA condition_queries TO echomind_scheduler, echomind_administrator;
GRANT USAGE ON SCHEMA public TO echomind_conditions, echomind_administrator;
REVOKE ALL ON FUNCTION condition_queries.conditions_write() FROM PUBLIC;
ALTER FUNCTION condition_queries.conditions_write() OWNER TO echomind_conditions;
REVOKE ALL ON FUNCTION connectors_refuse_condition(), connectors_settle_scope(), connectors_note_system(), connectors_note_job() FROM PUBLIC;
GRANT SELECT ON conditions TO echomind_scheduler, echomind_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON conditions TO echomind_administrator;
-- Types of the system: the console may not write this column.
GRANT INSERT (name, kind, system, default_refresh_minutes, max_concurrent_syncs, concurrency_keys) ON connector_types TO echomind_administrator;
REVOKE ALL ON FUNCTION calendars_write(), connectors_note_calendar(), connectors_note_freshness() FROM PUBLIC;
REVOKE ALL ON FUNCTION concurrency_limits_write(), connectors_wait_anew(), connectors_note_waiter(), open_runs_leave_keys() FROM PUBLIC;
GRANT SELECT ON calendars, calendar_versions TO echomind_scheduler, echomind_console;
GRANT SELECT ON calendars TO echomind_api;
GRANT SELECT ON calendar_users, connector_freshness, system_jobs TO echomind_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON calendars TO echomind_administrator;

-- The scheduler sets PENDING.
GRANT EXECUTE ON FUNCTION moves.lock_due(text, integer, integer, timestamptz, integer[], integer, bigint), moves.claim(jsonb, timestamptz),
    moves.keys_of(integer[]), moves.key_room(text[], boolean), moves.park(integer[], text[]), moves.waiting_keys(text[], text, integer),
    moves.lock_waiting(text, integer, integer, integer[]), moves.lock_stale(integer, integer, integer[]), moves.unpark(integer[]), moves.lock_unplanned(integer, integer[]), moves.plan(jsonb), moves.lock_asking(integer[], timestamptz), moves.note_met(integer[]), moves.fail_conditions(jsonb), moves.replan_calendars(integer), moves.lock_passed(integer, bigint[]), moves.miss_passed(jsonb),
    moves.redispatch(text, timestamptz, interval, interval, integer, timestamptz, bigint), moves.note_published(jsonb),
    moves.rescue(jsonb, interval, integer, boolean, integer[], bigint), moves.message_bytes(jsonb, jsonb, jsonb)
    TO echomind_scheduler;
GRANT SELECT ON connector_freshness, connectors, connector_types, open_runs, key_places, key_waiters, concurrency_limits, owner_turns, runs, scheduler_runs, waiting_types, workers TO echomind_scheduler;
REVOKE ALL ON FUNCTION default_refresh(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION default_refresh(text) TO echomind_console, echomind_api;
GRANT SELECT, UPDATE (minutes) ON refresh_defaults TO echomind_scheduler;
GRANT SELECT ON concurrency_limits, key_places, key_waiters TO echomind_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON concurrency_limits TO echomind_administrator;

-- Workers, and other teams' subscribers, set SYNCING, ERROR and, by handing back or by a store of their own, ACTIVE.
GRANT EXECUTE ON FUNCTION moves.pick_up(integer, uuid, uuid, uuid, interval),
    moves.heartbeat(uuid, interval, uuid[], uuid[]), moves.drain(uuid, uuid, bigint),
    moves.cut(uuid, uuid, bigint, bigint, text, interval, text), moves.release(uuid, uuid, boolean), moves.fail(uuid, uuid, text, text),
    moves.postpone(uuid, uuid, interval, text), moves.waits(uuid, uuid, interval, text),
    moves.known(uuid, uuid, text, integer, uuid[], integer[], bigint[]), moves.links(uuid, uuid, text),
    moves.deletions_allowed(uuid, uuid), moves.stored_up_to(uuid[]),
    moves.acquire_lock(uuid, uuid, text, interval, boolean, bigint), moves.renew_lock(uuid, uuid, text, bigint), moves.free_locks(uuid, uuid, text, bigint, bigint),
    moves.note_provider(uuid, uuid, text, text, bigint, jsonb),
    moves.report(uuid, uuid, bigint, bigint, text, text[]), moves.end_job(uuid, uuid, jsonb, text)
    TO echomind_worker, echomind_subscriber;
GRANT EXECUTE ON FUNCTION moves.pick_up_all(jsonb, uuid, interval), moves.drain_all(jsonb), moves.skip(uuid, uuid, jsonb, text, bigint),
    moves.skip_all(jsonb) TO echomind_worker;
GRANT EXECUTE ON FUNCTION moves.finish(uuid, uuid, jsonb), moves.hold(uuid, uuid) TO echomind_subscriber;
-- Not run_id, nor anything of open_runs: who knows a run and its try may end it. A message tells its receiver.
GRANT SELECT (id, type, status) ON connectors TO echomind_worker, echomind_subscriber;
GRANT SELECT ON connector_types TO echomind_worker, echomind_subscriber;
-- Rotated tokens and providers' quotas.
GRANT SELECT, DELETE ON connector_secrets TO echomind_worker;
GRANT EXECUTE ON FUNCTION moves.replace_secret(uuid, uuid, text, text) TO echomind_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON provider_quotas TO echomind_worker;
GRANT EXECUTE ON FUNCTION provider_quota_take(text, double precision, double precision, integer) TO echomind_worker;

-- Semantic sets ACTIVE, and ERROR for what was lost for good.
GRANT EXECUTE ON FUNCTION moves.complete(uuid, integer), moves.complete_all(uuid[], integer), moves.advance(uuid, integer),
    moves.abandon(jsonb, interval, integer, boolean, integer[]),
    moves.fail_lost_in_transit(uuid[], bigint, bigint, boolean), moves.fail_not_taken(integer, boolean, integer[]),
    moves.fail(uuid, uuid, text, text), moves.keep_ledger(interval), moves.keep_audit(interval, integer), moves.sweep_leftovers(integer, bigint, integer),
    moves.sweep_outdated(integer, bigint, text, integer), moves.sweep_chunks(bigint, integer, integer),
    moves.forget_workers(integer), moves.owner_has_room(integer), moves.add_system_job(text, text, integer), moves.hurry_orphan_sweep() TO echomind_semantic;
-- It works off its own system jobs: what a worker of jobs may.
GRANT EXECUTE ON FUNCTION moves.pick_up(integer, uuid, uuid, uuid, interval), moves.pick_up_all(jsonb, uuid, interval), moves.heartbeat(uuid, interval, uuid[], uuid[]),
    moves.release(uuid, uuid, boolean), moves.postpone(uuid, uuid, interval, text), moves.waits(uuid, uuid, interval, text), moves.stored_up_to(uuid[]),
    moves.acquire_lock(uuid, uuid, text, interval, boolean, bigint), moves.renew_lock(uuid, uuid, text, bigint), moves.free_locks(uuid, uuid, text, bigint, bigint),
    moves.report(uuid, uuid, bigint, bigint, text, text[]), moves.end_job(uuid, uuid, jsonb, text) TO echomind_semantic;
GRANT SELECT ON connectors, connector_types, open_runs, runs, scheduler_runs, workers, deleted_connectors TO echomind_semantic;
-- What a store counts: never whose run it is, nor its lease, nor its verdict.
GRANT UPDATE (total, stored, whole, waiting, notes, unnamed, documents_processed, documents_failed, documents_deleted,
    documents_unchanged, chunks_stored, listing_whole, new_state, reason) ON open_runs TO echomind_semantic;
GRANT SELECT, INSERT, UPDATE, DELETE ON documents, chunks, run_messages, message_tries, run_checkpoints, sightings,
    search_index, search_index_changes TO echomind_semantic;
GRANT USAGE ON SEQUENCE search_index_turns TO echomind_semantic;
GRANT SELECT, UPDATE, DELETE ON unswept_runs TO echomind_semantic;
GRANT SELECT, INSERT ON unnamed_chunks TO echomind_semantic;
GRANT UPDATE (place, attempts, next_at), DELETE ON deleted_connectors TO echomind_semantic;

-- People, by the command line: what users write, and their moves.
GRANT EXECUTE ON FUNCTION moves.enable(integer), moves.disable(integer, text), moves.cancel(uuid, text), moves.trigger_sync(integer, boolean, jsonb), moves.release_lock(text, bigint, text),
    moves.interval_slot(integer, timestamptz, integer, integer), moves.wait_for_slot(integer, timestamptz) TO echomind_console;
GRANT SELECT ON connectors, connector_types, open_runs, runs, scheduler_runs, connector_evidence, workers, deleted_connectors,
    documents, chunks, connector_secrets, search_index, search_index_changes, provider_quotas, resource_locks, lock_waiters, unmet_slots TO echomind_console;
GRANT INSERT (id, name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone, dst_gap, dst_overlap, spread_percent,
    deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries,
    deletion_guard, trigger_requested_at, created_by, updated_by, status) ON connectors TO echomind_console;
GRANT UPDATE (name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone, dst_gap, dst_overlap, spread_percent,
    deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries,
    deletion_guard, trigger_requested_at, updated_by, updated_at) ON connectors TO echomind_console;
GRANT DELETE ON connectors TO echomind_console;
GRANT USAGE ON SEQUENCE connectors_id_seq TO echomind_console;
GRANT SELECT, INSERT, UPDATE ON imported_connectors TO echomind_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON owner_quotas TO echomind_console;
GRANT SELECT ON owner_counts, document_counts TO echomind_console;
GRANT INSERT (name, kind, default_refresh_minutes, max_concurrent_syncs, concurrency_keys), UPDATE (default_refresh_minutes, max_concurrent_syncs, concurrency_keys)
    ON connector_types TO echomind_console;
-- `dlq replay` and `secrets rotate`.
GRANT UPDATE (version_token) ON documents TO echomind_console;
GRANT UPDATE (envelope) ON connector_secrets TO echomind_console;

-- Who may use services/api, and what was done: read by everybody who administers, written by the console and by functions of schema api.
GRANT SELECT ON users, group_members, identities, removed_users, audit TO echomind_console;
GRANT SELECT (id, user_id, name, role, scopes, created_at, created_by, expires_at, revoked_at, last_used_at, made_through) ON access_tokens TO echomind_console;
GRANT INSERT (user_id, name, role, scopes, secret_sha256, created_by, expires_at), UPDATE (revoked_at) ON access_tokens TO echomind_console;
GRANT INSERT (code_sha256, token_id, expires_at) ON sign_in_links TO echomind_console;
GRANT INSERT (user_id, role), UPDATE (role), DELETE ON users TO echomind_console;
GRANT INSERT (user_id, group_id, leads), UPDATE (leads), DELETE ON group_members TO echomind_console;
GRANT INSERT (issuer, subject, user_id), UPDATE (user_id, made_at) ON identities TO echomind_console;
GRANT INSERT ON removed_users TO echomind_console;

-- services/api: what whom it serves may see and change, by views that say so, and the moves of users. No table of connectors, runs, documents or tokens.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA api FROM PUBLIC;
GRANT USAGE ON SCHEMA api, moves, public TO echomind_api;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA api TO echomind_api;
REVOKE ALL ON FUNCTION api.bound_tokens(integer), api.bound_sessions(integer) FROM echomind_api;
GRANT EXECUTE ON FUNCTION moves.enable(integer), moves.disable(integer, text), moves.cancel(uuid, text), moves.trigger_sync(integer, boolean, jsonb),
    moves.interval_slot(integer, timestamptz, integer, integer), moves.release_lock(text, bigint, text) TO echomind_api;
GRANT SELECT ON goose_db_version, connector_types, api.connectors, api.changeable, api.givable, api.creatable, api.runs, api.run_after, api.audit, api.tokens, api.evidence,
    api.documents, api.sources, api.chunks, api.search_index, api.locks, api.limits, api.chained, api.scheduled_jobs, api.conditions TO echomind_api;
GRANT INSERT, UPDATE (accepts, max_age_minutes, timeout_minutes), DELETE ON api.chained TO echomind_api;
GRANT SELECT, INSERT (name, time_zone, entries), UPDATE (time_zone, entries), DELETE ON api.changeable_calendars TO echomind_api;
GRANT SELECT ON api.calendar_users TO echomind_api;
GRANT USAGE ON SEQUENCE connectors_id_seq TO echomind_api;
GRANT INSERT (id, name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone, dst_gap, dst_overlap, spread_percent,
    deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries,
    deletion_guard, created_by, updated_by) ON api.creatable TO echomind_api;
GRANT UPDATE (name, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone, dst_gap, dst_overlap, spread_percent,
    deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries,
    deletion_guard, updated_by), DELETE ON api.changeable TO echomind_api;
GRANT UPDATE (name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone, dst_gap, dst_overlap, spread_percent,
    deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries,
    deletion_guard, updated_by) ON api.givable TO echomind_api;

-- Dashboards: what goes on, and nothing of what is in it.
GRANT SELECT (id, name, type, user_id, scope, scope_id, refresh_freq_minutes, schedule_cron, run_at_once, time_zone, dst_gap, dst_overlap, spread_percent,
    deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries,
    deletion_guard, deletions_allowed_at, trigger_requested_at, created_at, created_by, updated_at, updated_by, status, status_message, config_version,
    added_version, synced_version, listed_version, last_sync_at, next_sync_at, due_reason, slot_at, slots_through, planned_through, needs_plan,
    claimed_at, over_at, claimed_for, wanted, synced_for, failure_count, docs_analyzed, put_off_since, condition_met_at, parameters_due_at, asks_condition, waits_for_key, due_at, at_fault, follows, followed,
    upstreams_met_at, asks_upstreams) ON connectors TO echomind_reader;
GRANT SELECT (id, connector_id, job_name, type, trigger, slot, slot_last, missed_count, due_at, started_at, dispatched_at,
    dispatches, trigger_requested_at, deletions_allowed_at, picked_up_at, fetched_at, drain_seq, completed_at, status, reason, error_message, total,
    stored, documents_processed, documents_failed, documents_deleted, documents_unchanged, chunks_stored, listing_whole,
    config_version, waits_until, wait_message, resources, progress_done, progress_total) ON scheduler_runs TO echomind_reader;
GRANT SELECT ON connector_freshness, connector_types, lock_waiters, resource_locks, workers TO echomind_reader;
-- Not the try: who knows it speaks for its run.
GRANT SELECT (seen_at, id, name, type, user_id, status, status_message, failure_count, max_retries, refresh_freq_minutes, schedule_cron,
    time_zone, dst_gap, dst_overlap, spread_percent, deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, synced_version, config_version, calendar, calendar_use, follows, asks_upstreams, upstream_id, upstream_name, upstream_status, upstream_ended_at, condition, asks_condition, waits_for_key, key_most, key_held, key_held_since, key_holder, condition_met_at, unmet_at, unmet_count, claimed_at, synced_for,
    needs_plan, planned_through, next_sync_at, due_reason, slot_at, trigger_requested_at, parameters_due_at, last_sync_at, docs_analyzed, put_off_since, trigger, due_at, started_at,
    dispatched_at, dispatches, picked_up_at, lease_expires_at, fetched_at, total, stored, whole, cut, waits_until, wait_message, lock_key, lock_asked_at, lock_connector_id, lock_expires_at, progress_done, progress_total, kind, type_cap, due_before, in_flight,
    owner_in_flight, owner_cap, has_other_owners, pending_before, fetching, dispatched_since, publish_error,
    type_publish_error) ON connector_evidence TO echomind_reader;
GRANT SELECT (id, connector_id, status, chunk_count, text_bytes, config_version, updated_at, deleted_at) ON documents TO echomind_reader;

-- +goose Down
-- The roles are the cluster's, and stay.
-- +goose StatementBegin
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'condition_queries'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO CURRENT_USER', f);
    END LOOP;
END $$;
-- +goose StatementEnd
DROP OWNED BY echomind_scheduler, echomind_worker, echomind_semantic, echomind_console, echomind_subscriber, echomind_reader,
    echomind_api, echomind_administrator, echomind_conditions;
