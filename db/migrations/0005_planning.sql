-- +goose Up
-- Every move is a function of schema moves, which says what it means and follows through: the verdict, the failure policy,
-- the next due time, waking the scheduler. docs/states.md lists them. They belong to the schema's owner and run with its
-- rights (SECURITY DEFINER), so that a role needs EXECUTE on its own moves and nothing else. Lock order: workers, then
-- connectors, then open_runs. While one runs, echomind.moving is on, and the trigger on users' writes stands aside.
CREATE SCHEMA moves;

-- The status moves that exist. docs/states.md draws them; sdk/lifecycle repeats them; a test compares all three.
-- +goose StatementBegin
CREATE FUNCTION moves.allowed(from_status text, to_status text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (from_status, to_status) IN (
        ('ACTIVE', 'PENDING'), ('ERROR', 'PENDING'), ('SYNCING', 'PENDING'),
        ('PENDING', 'SYNCING'),
        ('SYNCING', 'ACTIVE'), ('PENDING', 'ACTIVE'), ('DISABLED', 'ACTIVE'),
        ('SYNCING', 'ERROR'), ('PENDING', 'ERROR'), ('ACTIVE', 'ERROR'), ('ERROR', 'ACTIVE'),
        ('ACTIVE', 'DISABLED'), ('PENDING', 'DISABLED'), ('SYNCING', 'DISABLED'), ('ERROR', 'DISABLED'))
$$;
-- +goose StatementEnd

-- The next slot of an interval that counts from `base`: up to `spread` percent of it earlier than a whole one, at one of the connector's
-- own moments. They are so far apart that a whole number of them makes the interval: what comes due at one is due next exactly an
-- interval later, unless the sync took longer than they are apart. So the phase is the connector's for ever, and nothing adds up.
-- +goose StatementBegin
CREATE FUNCTION moves.interval_slot(connector integer, base timestamptz, minutes integer, spread integer) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    whole timestamptz := base + make_interval(mins => minutes);
    apart bigint;   -- microseconds
    phase bigint;
BEGIN
    IF spread = 0 THEN
        RETURN whole;
    END IF;
    apart := minutes * 60000000::bigint / greatest(1, round(100.0 / spread)::bigint);
    -- A multiplicative hash: ids that follow each other lie as far from each other as there is room.
    phase := (((connector::bigint * 2654435761) & 4294967295) * apart::numeric / 4294967296)::bigint;
    RETURN whole - make_interval(secs => (((extract(epoch FROM whole) * 1000000)::bigint - phase) % apart) / 1000000.0);
END $$;
-- +goose StatementEnd

-- Puts a connector at rest on its next due time. `base` is what an interval counts from.
-- +goose StatementBegin
CREATE FUNCTION moves.planned(c connectors, base timestamptz) RETURNS connectors
    LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    c.next_sync_at := NULL;
    c.due_reason := NULL;
    c.slot_at := NULL;
    c.needs_plan := false;
    c.upstreams_met_at := NULL;   -- that was for what it was due for
    IF c.trigger_requested_at IS NOT NULL THEN
        c.next_sync_at := moment;
        c.due_reason := 'manual';
    ELSIF c.schedule_cron IS NULL AND c.refresh_freq_minutes IS NULL THEN
        NULL;
    ELSIF c.last_sync_at IS NOT NULL AND c.synced_version IS DISTINCT FROM c.config_version THEN
        c.next_sync_at := moment;
        c.due_reason := 'changed';
    ELSIF c.schedule_cron IS NOT NULL THEN
        c.needs_plan := true;
    ELSIF c.last_sync_at IS NULL THEN
        c.next_sync_at := moment;
        c.due_reason := 'new';
    ELSIF c.refresh_freq_minutes > 0 THEN
        c.next_sync_at := moves.interval_slot(c.id, base, c.refresh_freq_minutes, c.spread_percent);
        c.due_reason := 'schedule';
        c.slot_at := c.next_sync_at;
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- The failure policy: ERROR with the next try after min(2^n, 60) minutes and jitter, none after a permanent failure,
-- DISABLED after max_retries failures in a row. A system job is tried again after each failure: housekeeping that has given up would
-- be noticed by a full disk. Of a sync that nothing but a schedule of once_per wants, the next slot is the next try. A
-- permission to delete many documents ends with the tries of its request. A run with parameters is not tried again.
-- +goose StatementBegin
CREATE FUNCTION moves.failed(c connectors, permanent boolean) RETURNS connectors
    LANGUAGE plpgsql AS $$
BEGIN
    IF c.kept_plan IS NOT NULL THEN
        RETURN moves.resumed(c);
    END IF;
    permanent := permanent AND c.scope <> 'system';
    c.failure_count := c.failure_count + 1;
    c.put_off_since := NULL;   -- the failures are seen
    c.status := 'ERROR';
    c.next_sync_at := NULL;
    c.due_reason := NULL;
    c.slot_at := NULL;
    c.needs_plan := false;
    IF c.failure_count >= c.max_retries AND c.scope <> 'system' THEN
        c := moves.miss_slots(c, 'disabled before it could be claimed');
        c.status := 'DISABLED';
        c.status_message := left(format('disabled after %s failures in a row: %s',
            c.failure_count, coalesce(c.status_message, 'no message')), 2000);
        c.trigger_requested_at := NULL;
        c.next_parameters := NULL;
        c.parameters_due_at := NULL;
    ELSIF c.trigger_requested_at IS NOT NULL THEN
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'manual';
    ELSIF NOT permanent AND c.once_per IS NOT NULL AND c.schedule_cron IS NOT NULL AND NOT c.wanted THEN
        c.needs_plan := true;
        c.due_reason := 'schedule';   -- at its next slot, also where it never synced
    ELSIF NOT permanent THEN
        c.next_sync_at := clock_timestamp()
            + make_interval(secs => 60 * least(power(2, least(c.failure_count, 10)), 60) * (0.8 + 0.4 * random()));
        c.due_reason := 'retry';
    END IF;
    IF c.due_reason IS NULL OR c.due_reason = 'schedule' THEN   -- no try follows: the sync is over
        c.over_at := clock_timestamp();
        c.claimed_for := NULL;
        c.deletions_allowed_at := NULL;
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- What a run with parameters leaves alone: where its connector stands by itself. The claim keeps it in kept_plan, and a user's change
-- while that run goes on changes it there.
-- +goose StatementBegin
CREATE FUNCTION moves.kept(c connectors) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_build_object('status', c.status, 'status_message', c.status_message, 'failure_count', c.failure_count,
        'put_off_since', c.put_off_since, 'next_sync_at', c.next_sync_at, 'due_reason', c.due_reason, 'slot_at', c.slot_at,
        'needs_plan', c.needs_plan, 'condition_met_at', c.condition_met_at, 'upstreams_met_at', c.upstreams_met_at);
END $$;
-- +goose StatementEnd

-- A connector whose run with parameters is over, however it ended: it stands where it stood. Its state and listing stay, see put.
-- +goose StatementBegin
CREATE FUNCTION moves.resumed(c connectors) RETURNS connectors
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    c := jsonb_populate_record(c, c.kept_plan);
    c.kept_plan := NULL;
    c.run_id := NULL;
    c.state := NULL;
    RETURN c;
END $$;
-- +goose StatementEnd

-- Asks once more for the run with parameters that a connector is in, unless another was asked for since. Asked before the run ends.
-- +goose StatementBegin
CREATE FUNCTION moves.asked_again(c connectors, due timestamptz) RETURNS connectors
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF c.next_parameters IS NULL THEN
        c.next_parameters := (SELECT o.parameters FROM open_runs o WHERE o.id = c.run_id);
        c.parameters_due_at := due;
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- Writes down where connectors stand after a move; of one without a state, that and its listing stay. All in one statement: each
-- reads the checks of the table anew from the catalog, which costs more than a row. In PL/pgSQL, which keeps the plan; a function in SQL makes one for each call.
-- +goose StatementBegin
CREATE FUNCTION moves.put(moved connectors[]) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE connectors k SET status = c.status, status_message = c.status_message,
        state = coalesce(c.state, k.state), listing = CASE WHEN c.state IS NULL THEN k.listing ELSE c.listing END,
        last_sync_at = c.last_sync_at, synced_version = c.synced_version,
        listed_version = c.listed_version, next_sync_at = c.next_sync_at,
        due_reason = c.due_reason, slot_at = c.slot_at, slots_through = c.slots_through,
        planned_through = c.planned_through, needs_plan = c.needs_plan, over_at = c.over_at, claimed_for = c.claimed_for,
        synced_for = c.synced_for, run_id = c.run_id,
        failure_count = c.failure_count, docs_analyzed = c.docs_analyzed, trigger_requested_at = c.trigger_requested_at,
        deletions_allowed_at = c.deletions_allowed_at, next_parameters = c.next_parameters, parameters_due_at = c.parameters_due_at,
        kept_plan = c.kept_plan, put_off_since = c.put_off_since, condition_met_at = c.condition_met_at, upstreams_met_at = c.upstreams_met_at
    -- The rows are locked, so that they stay where they are. Whatever the planner believes of the table, it reads each by its key.
    FROM unnest(moved) c, LATERAL (SELECT l.ctid FROM connectors l WHERE l.id = c.id OFFSET 0) at WHERE k.ctid = at.ctid;
END $$;
-- +goose StatementEnd

-- Gives open runs their verdict: from open_runs into the ledger, and onto the list of what is to be swept. own: their workers say so, and work no more.
-- +goose StatementBegin
CREATE FUNCTION moves.end_runs(ended uuid[], verdict text, why text, message text DEFAULT NULL, own boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    had_locks boolean;
BEGIN
    WITH gone AS (DELETE FROM open_runs WHERE id = ANY(ended) RETURNING *),
    kept AS (
        INSERT INTO runs (id, connector_id, type, trigger, slot, due_at, started_at, config_version, dispatches,
            trigger_requested_at, deletions_allowed_at, parameters, picked_up_at, try_id, fetched_at, completed_at, status, reason,
            error_message, waits_until, resources, total, stored, checkpoint_no, notes, documents_processed, documents_failed, documents_deleted,
            documents_unchanged, chunks_stored, listing_whole, progress_done, progress_total, progress_text, warnings, result)
        SELECT id, connector_id, type, trigger, slot, due_at, started_at, config_version, dispatches,
            trigger_requested_at, deletions_allowed_at, parameters, picked_up_at, try_id, fetched_at, clock_timestamp(), verdict, why,
            message, CASE WHEN why = 'postponed' OR (why = 'lost in transit' AND cut IS NOT NULL) THEN waits_until END,
            resources, total, stored, checkpoint_no, notes, documents_processed, documents_failed, documents_deleted,
            documents_unchanged, chunks_stored, listing_whole, progress_done, progress_total, progress_text, warnings, result
        FROM gone),
    -- Also one that was never picked up: a change may have taken the state that earlier tries' sightings were kept for.
    unswept AS (
        INSERT INTO unswept_runs (run_id, connector_id, try_id, config_version, outdated)
        SELECT id, connector_id, try_id, config_version, false FROM gone
        ON CONFLICT (run_id) DO NOTHING)
    SELECT bool_or(has_locks) INTO had_locks FROM gone;
    IF had_locks THEN
        PERFORM moves.let_go(ended, own);
    END IF;
END $$;
-- +goose StatementEnd

-- A connector with the permission to delete many documents that it has once its open run ends without having completed: the user's
-- for the next run, else this run's, whose request is tried again. Asked before the run ends.
-- +goose StatementBegin
CREATE FUNCTION moves.unspent(c connectors) RETURNS connectors
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    c.deletions_allowed_at := coalesce(c.deletions_allowed_at, (SELECT o.deletions_allowed_at FROM open_runs o WHERE o.id = c.run_id));
    RETURN c;
END $$;
-- +goose StatementEnd

-- Whether a slot of a connector that was added with a version has no verdict in the ledger; those of a deleted connector of
-- the same id are none. Asked of slots up to slots_through only, which a clock that steps back brings: those behind it have
-- none. A verdict is not a day older than its slot: only the weeks since then are read.
-- +goose StatementBegin
CREATE FUNCTION moves.is_unanswered(connector integer, added bigint, moment timestamptz) RETURNS boolean
    LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (
        SELECT FROM runs r WHERE r.connector_id = connector AND r.config_version >= added AND r.started_at > moment - interval '1 day'
            AND r.completed_at > moment - interval '1 day' AND moment BETWEEN r.slot AND coalesce(r.slot_last, r.slot))
        AND NOT EXISTS (SELECT FROM unmet_slots u WHERE u.connector_id = connector AND u.config_version >= added
            AND moment BETWEEN u.first_slot AND u.last_slot)
$$;
-- +goose StatementEnd

-- Ends the lines of slots that conditions have passed over: into the ledger.
-- +goose StatementBegin
CREATE FUNCTION moves.end_unmet(ids integer[]) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM unmet_slots u USING (SELECT l.ctid FROM unnest(ids) k(id), LATERAL (
            SELECT o.ctid FROM unmet_slots o WHERE o.connector_id = k.id OFFSET 0) l) at
        WHERE u.ctid = at.ctid RETURNING u.*)
    INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at, status, reason,
        config_version)
    SELECT gen_random_uuid(), g.connector_id, g.type, 'schedule', g.first_slot, g.last_slot, g.count, g.first_slot, g.first_at, clock_timestamp(),
        'skipped', g.reason, g.config_version
    FROM gone g;
END $$;
-- +goose StatementEnd

-- Writes the verdict of slots that have passed and will not be claimed any more: of an interval's one slot at once; those of a
-- cron schedule are left to the scheduler, which counts them. Returns the connector that answers for them.
-- +goose StatementBegin
CREATE FUNCTION moves.miss_slots(c connectors, why text) RETURNS connectors
    LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    IF c.condition IS NOT NULL THEN
        PERFORM moves.end_unmet(ARRAY[c.id]);
    END IF;
    IF c.schedule_cron IS NOT NULL THEN
        IF c.planned_through < moment THEN
            INSERT INTO passed_slots (connector_id, type, config_version, schedule_cron, time_zone, dst_gap, dst_overlap,
                after, through, once_per, completed, reason, calendar, calendar_use, calendar_version, user_id)
            VALUES (c.id, c.type, c.config_version, c.schedule_cron, c.time_zone, c.dst_gap, c.dst_overlap, c.planned_through, moment,
                c.once_per, array_remove(ARRAY[c.synced_for, CASE WHEN c.over_at IS NOT NULL THEN c.claimed_for END], NULL), why,
                c.calendar, c.calendar_use, (SELECT k.version FROM calendars k WHERE k.name = c.calendar), c.user_id);
        END IF;
        c.slots_through := greatest(c.slots_through, c.planned_through, moment);
        c.planned_through := NULL;
    ELSIF c.run_id IS NULL AND c.slot_at <= moment
        AND (c.slot_at > coalesce(c.slots_through, '-infinity') OR moves.is_unanswered(c.id, c.added_version, c.slot_at)) THEN
        INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at,
            completed_at, status, reason, config_version)
        VALUES (gen_random_uuid(), c.id, c.type, 'schedule', c.slot_at, c.slot_at, 1, c.slot_at, moment, moment, 'missed', why,
            c.config_version);
        c.slots_through := greatest(c.slots_through, c.slot_at);
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- Wakes the scheduler for a type when something of it is due, or when a place of a capped type is waited for. The latter once for each claim
-- that was cut short: commits that notify take turns (950 a second instead of 3,500 with eight writers), and one wake is enough.
-- Where somebody holds the flag, for however long, it stays up, and each verdict wakes. So it does in a transaction of a stricter
-- isolation, which would fail because others have moved the flag.
-- +goose StatementBegin
CREATE FUNCTION moves.wake(c connectors, left_place boolean) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF c.needs_plan OR least(c.next_sync_at, CASE WHEN c.run_id IS NULL THEN c.parameters_due_at END) <= clock_timestamp() THEN
        PERFORM pg_notify('connectors_due', c.type);
    ELSIF left_place AND EXISTS (SELECT FROM waiting_types t WHERE t.name = c.type AND t.waits) THEN
        IF current_setting('transaction_isolation') = 'read committed' THEN
            PERFORM FROM waiting_types t WHERE t.name = c.type AND t.waits FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE waiting_types SET waits = false WHERE name = c.type;
            END IF;
        END IF;
        PERFORM pg_notify('connectors_due', c.type);
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.wake(connectors, boolean);
DROP FUNCTION moves.miss_slots(connectors, text);
DROP FUNCTION moves.end_unmet(integer[]);
DROP FUNCTION moves.is_unanswered(integer, bigint, timestamptz);
DROP FUNCTION moves.unspent(connectors);
DROP FUNCTION moves.end_runs(uuid[], text, text, text, boolean);
DROP FUNCTION moves.put(connectors[]);
DROP FUNCTION moves.asked_again(connectors, timestamptz);
DROP FUNCTION moves.resumed(connectors);
DROP FUNCTION moves.kept(connectors);
DROP FUNCTION moves.failed(connectors, boolean);
DROP FUNCTION moves.planned(connectors, timestamptz);
DROP FUNCTION moves.interval_slot(integer, timestamptz, integer, integer);
DROP FUNCTION moves.allowed(text, text);
DROP SCHEMA moves;
