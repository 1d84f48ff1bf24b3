-- +goose Up
-- The status moves that exist. docs/states.md draws them; sdk/lifecycle repeats them; a test compares all three.
-- +goose StatementBegin
CREATE FUNCTION connector_move_allowed(from_status text, to_status text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (from_status, to_status) IN (
        ('ACTIVE', 'PENDING'), ('ERROR', 'PENDING'), ('SYNCING', 'PENDING'),
        ('PENDING', 'SYNCING'),
        ('SYNCING', 'ACTIVE'), ('PENDING', 'ACTIVE'), ('DISABLED', 'ACTIVE'),
        ('SYNCING', 'ERROR'),
        ('ACTIVE', 'DISABLED'), ('PENDING', 'DISABLED'), ('SYNCING', 'DISABLED'), ('ERROR', 'DISABLED'))
$$;
-- +goose StatementEnd

-- Puts a connector at rest on its next due time. `base` is what an interval counts from.
-- +goose StatementBegin
CREATE FUNCTION connector_plan(c connectors, base timestamptz) RETURNS connectors
    LANGUAGE plpgsql AS $$
BEGIN
    c.next_sync_at := NULL;
    c.due_reason := NULL;
    c.slot_at := NULL;
    c.needs_plan := c.schedule_cron IS NOT NULL;
    IF c.trigger_requested_at IS NOT NULL THEN
        c.needs_plan := false;
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'manual';
    ELSIF c.needs_plan OR c.refresh_freq_minutes IS NULL THEN
        NULL;
    ELSIF c.last_sync_at IS NULL THEN
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'new';
    ELSIF c.refresh_freq_minutes > 0 THEN
        c.next_sync_at := base + make_interval(mins => c.refresh_freq_minutes);
        c.due_reason := 'schedule';
        c.slot_at := c.next_sync_at;
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- What was changed now, or before and never synced since, is due at once, unless nothing makes it due by itself.
-- +goose StatementBegin
CREATE FUNCTION connector_sync_change(c connectors, changed boolean) RETURNS connectors
    LANGUAGE plpgsql AS $$
BEGIN
    IF c.last_sync_at IS NOT NULL AND c.trigger_requested_at IS NULL
        AND (c.schedule_cron IS NOT NULL OR c.refresh_freq_minutes IS NOT NULL)
        AND (changed OR EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.connector_id = c.id))
        AND NOT EXISTS (SELECT 1 FROM scheduler_runs r WHERE r.connector_id = c.id
            AND r.config_version = c.config_version AND r.status IN ('completed', 'skipped')) THEN
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'changed';
        c.slot_at := NULL;
        c.needs_plan := false;
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- The failure policy: ERROR with the next try after min(2^n, 60) minutes and jitter, DISABLED after
-- max_retries failures in a row. due_reason 'permanent' means no next try.
-- +goose StatementBegin
CREATE FUNCTION connector_failed(c connectors) RETURNS connectors
    LANGUAGE plpgsql AS $$
BEGIN
    c.failure_count := c.failure_count + 1;
    c.slot_at := NULL;
    c.needs_plan := false;
    IF c.failure_count >= c.max_retries THEN
        c.status := 'DISABLED';
        c.status_message := left(format('disabled after %s failures in a row: %s',
            c.failure_count, coalesce(c.status_message, 'no message')), 2000);
        c.next_sync_at := NULL;
        c.due_reason := NULL;
        c.trigger_requested_at := NULL;
    ELSIF c.trigger_requested_at IS NOT NULL THEN
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'manual';
    ELSIF c.due_reason = 'permanent' THEN
        c.next_sync_at := NULL;
        c.due_reason := NULL;
    ELSE
        c.next_sync_at := clock_timestamp()
            + make_interval(secs => 60 * least(power(2, least(c.failure_count, 10)), 60) * (0.8 + 0.4 * random()));
        c.due_reason := 'retry';
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- Every write of a user's column, of status or of session passes here. It refuses moves that do not exist,
-- keeps the due time right whoever wrote, and closes the run of a session that a connector leaves.
-- +goose StatementBegin
CREATE FUNCTION connectors_before_write() RETURNS trigger
    LANGUAGE plpgsql AS $$
DECLARE
    moment  timestamptz;
    changed boolean;
    triggered boolean;
    left_run text;   -- the verdict of the run that this write ends
    why      text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status NOT IN ('ACTIVE', 'DISABLED') THEN
            RAISE EXCEPTION 'a connector starts ACTIVE or DISABLED, not %', NEW.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_status_move';
        END IF;
        NEW.config_version := nextval('connector_config_versions');
        IF NEW.status = 'ACTIVE' THEN
            NEW := connector_plan(NEW, NEW.last_sync_at);
        ELSIF NEW.trigger_requested_at IS NOT NULL THEN
            RAISE EXCEPTION 'connector % is disabled; enable it before you trigger it', NEW.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_trigger_disabled';
        END IF;
        IF NEW.needs_plan OR NEW.next_sync_at <= clock_timestamp() THEN
            PERFORM pg_notify('connectors_due', '');
        END IF;
        RETURN NEW;
    END IF;

    IF NEW.status <> OLD.status AND NOT connector_move_allowed(OLD.status, NEW.status) THEN
        RAISE EXCEPTION 'connector % cannot move from % to %', OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_status_move';
    END IF;
    -- The scheduler's claim: the frequent case, and nothing here concerns it.
    IF NEW.status = 'PENDING' AND OLD.status IN ('ACTIVE', 'ERROR') THEN
        RETURN NEW;
    END IF;

    moment := clock_timestamp();
    changed := (NEW.type, NEW.config, NEW.scope, NEW.scope_id, NEW.user_id)
        IS DISTINCT FROM (OLD.type, OLD.config, OLD.scope, OLD.scope_id, OLD.user_id);
    IF changed THEN
        NEW.config_version := nextval('connector_config_versions');
        NEW.state := '{}';
        NEW.failure_count := 0;
        NEW.updated_at := moment;
    END IF;
    IF OLD.status = 'DISABLED'
        OR (NEW.schedule_cron, NEW.time_zone) IS DISTINCT FROM (OLD.schedule_cron, OLD.time_zone) THEN
        NEW.planned_through := NULL;   -- slots count from now
    END IF;

    IF NEW.status = 'DISABLED' THEN
        IF NEW.trigger_requested_at IS DISTINCT FROM OLD.trigger_requested_at
            AND NEW.trigger_requested_at IS NOT NULL AND OLD.status = 'DISABLED' THEN
            RAISE EXCEPTION 'connector % is disabled; enable it before you trigger it', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_trigger_disabled';
        END IF;
        IF OLD.status <> 'DISABLED' THEN
            left_run := 'superseded';
            why := 'disabled';
            IF NEW.status_message IS NOT DISTINCT FROM OLD.status_message THEN
                NEW.status_message := 'disabled by the user';
            END IF;
        END IF;
        NEW.next_sync_at := NULL;
        NEW.due_reason := NULL;
        NEW.slot_at := NULL;
        NEW.needs_plan := false;
        NEW.trigger_requested_at := NULL;
    ELSIF OLD.status = 'DISABLED' THEN
        NEW.failure_count := 0;
        NEW.status_message := NULL;
        NEW := connector_plan(NEW, moment);
        NEW := connector_sync_change(NEW, changed);
    ELSIF changed AND OLD.chunking_session IS NOT NULL THEN
        left_run := 'superseded';
        why := 'configuration changed';
        NEW.status := 'ACTIVE';
        NEW.next_sync_at := moment;
        NEW.due_reason := 'changed';
        NEW.slot_at := NULL;
    ELSIF NEW.status = 'SYNCING' AND OLD.status = 'PENDING' THEN
        -- Reading starts now: a trigger asked for before is answered by this run.
        UPDATE scheduler_runs SET picked_up_at = moment, trigger_requested_at = OLD.trigger_requested_at
            WHERE id = OLD.chunking_session AND status = 'running';
        NEW.trigger_requested_at := NULL;
    ELSIF NEW.status = 'PENDING' AND OLD.status = 'SYNCING' THEN
        left_run := 'failed';
        why := 'worker lost';
    ELSIF NEW.status = 'ERROR' AND OLD.status = 'SYNCING' THEN
        -- In flight due_reason is null; the mover says with it what kind of failure this is.
        left_run := 'failed';
        IF NEW.due_reason = 'lost' THEN
            why := 'lost in transit';
            NEW.next_sync_at := moment;
            NEW.slot_at := NULL;
        ELSE
            why := CASE NEW.due_reason WHEN 'permanent' THEN 'permanent failure'
                                       WHEN 'rescue' THEN 'worker lost'
                                       ELSE 'transient failure' END;
            NEW := connector_failed(NEW);
        END IF;
    ELSIF NEW.status = 'ACTIVE' AND OLD.chunking_session IS NOT NULL THEN
        IF OLD.status = 'SYNCING' AND (NEW.last_sync_at IS DISTINCT FROM OLD.last_sync_at
            OR NEW.chunking_session = OLD.chunking_session) THEN
            -- Complete. A subscriber that moves by plain SQL leaves the session standing and says no more.
            left_run := 'completed';
            IF NEW.chunking_session IS NOT NULL THEN
                NEW.last_sync_at := moment;
            END IF;
            NEW.failure_count := 0;
            NEW.status_message := NULL;
            NEW := connector_plan(NEW, NEW.last_sync_at);
        ELSE
            left_run := 'superseded';
            why := 'released';
            NEW.next_sync_at := moment;
            NEW.due_reason := 'release';
            NEW.slot_at := NULL;
        END IF;
    ELSIF NEW.status IN ('ACTIVE', 'ERROR') THEN
        NEW.updated_at := moment;
        triggered := NEW.trigger_requested_at IS DISTINCT FROM OLD.trigger_requested_at
            AND NEW.trigger_requested_at IS NOT NULL;
        IF triggered
            OR (changed AND (NEW.schedule_cron IS NOT NULL OR NEW.refresh_freq_minutes IS NOT NULL)) THEN
            -- What is due already keeps its place, its reason and its slot: the run answers both.
            IF OLD.next_sync_at IS NULL OR OLD.next_sync_at > moment THEN
                NEW.next_sync_at := moment;
                NEW.due_reason := CASE WHEN triggered THEN 'manual'
                                       WHEN NEW.last_sync_at IS NULL THEN 'new' ELSE 'changed' END;
                NEW.slot_at := NULL;
                NEW.needs_plan := false;
            END IF;
        ELSIF (NEW.refresh_freq_minutes, NEW.schedule_cron, NEW.time_zone)
                IS DISTINCT FROM (OLD.refresh_freq_minutes, OLD.schedule_cron, OLD.time_zone)
            AND NEW.status = 'ACTIVE'
            AND (OLD.next_sync_at IS NULL OR OLD.due_reason IN ('schedule', 'new')) THEN
            NEW := connector_sync_change(connector_plan(NEW, NEW.last_sync_at), changed);
        END IF;
    END IF;

    IF left_run IS NOT NULL AND OLD.chunking_session IS NOT NULL THEN
        UPDATE scheduler_runs
            SET status = left_run, reason = why, completed_at = moment, new_state = NULL,
                error_message = CASE WHEN left_run = 'failed' THEN NEW.status_message END
            WHERE id = OLD.chunking_session AND status = 'running';
        IF NEW.status <> 'PENDING' THEN
            NEW.chunking_session := NULL;
        END IF;
        NEW.lease_owner := NULL;
        NEW.lease_expires_at := NULL;
        NEW.dispatched_at := CASE WHEN NEW.status = 'PENDING' THEN NEW.dispatched_at END;
    END IF;

    -- Wake the scheduler when this row is due, or when the place it leaves is waited for.
    IF NEW.needs_plan OR NEW.next_sync_at <= clock_timestamp() OR (left_run IS NOT NULL AND EXISTS (
            SELECT 1 FROM connectors d WHERE d.type = OLD.type AND d.next_sync_at <= moment)) THEN
        PERFORM pg_notify('connectors_due', '');
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER connectors_before_insert BEFORE INSERT ON connectors
    FOR EACH ROW EXECUTE FUNCTION connectors_before_write();
CREATE TRIGGER connectors_before_update
    BEFORE UPDATE OF type, config, scope, scope_id, user_id, refresh_freq_minutes, schedule_cron, time_zone,
        trigger_requested_at, status, chunking_session
    ON connectors
    FOR EACH ROW EXECUTE FUNCTION connectors_before_write();

-- +goose StatementBegin
CREATE FUNCTION connectors_before_delete() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE scheduler_runs
        SET status = 'superseded', reason = 'connector deleted', completed_at = clock_timestamp(), new_state = NULL
        WHERE id = OLD.chunking_session AND status = 'running';
    INSERT INTO deleted_connectors (id) VALUES (OLD.id) ON CONFLICT (id) DO NOTHING;
    IF OLD.chunking_session IS NOT NULL THEN
        PERFORM pg_notify('connectors_due', '');   -- its place is free
    END IF;
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_before_delete BEFORE DELETE ON connectors
    FOR EACH ROW EXECUTE FUNCTION connectors_before_delete();

-- +goose Down
DROP TRIGGER connectors_before_delete ON connectors;
DROP TRIGGER connectors_before_update ON connectors;
DROP TRIGGER connectors_before_insert ON connectors;
DROP FUNCTION connectors_before_delete();
DROP FUNCTION connectors_before_write();
DROP FUNCTION connector_failed(connectors);
DROP FUNCTION connector_sync_change(connectors, boolean);
DROP FUNCTION connector_plan(connectors, timestamptz);
DROP FUNCTION connector_move_allowed(text, text);
