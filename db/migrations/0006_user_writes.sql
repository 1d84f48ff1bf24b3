-- +goose Up
-- What users write themselves: name, type, config, scope, owner, schedule, max_retries, deletion_guard, trigger_requested_at. The trigger
-- keeps the due time right for every writer, gives a changed configuration its version, and refuses the columns that are
-- moved. It stands aside where schema moves writes.
-- +goose StatementBegin
CREATE FUNCTION connectors_user_insert() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.status NOT IN ('ACTIVE', 'DISABLED') THEN
        RAISE EXCEPTION 'a connector starts ACTIVE or DISABLED, not %', NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_status_move';
    END IF;
    NEW.config_version := nextval('connector_config_versions');
    NEW.added_version := NEW.config_version;
    NEW.listed_version := NULL;
    NEW.listing := NULL;
    NEW.deletions_allowed_at := NULL;
    NEW.next_parameters := NULL;
    NEW.parameters_due_at := NULL;
    NEW.kept_plan := NULL;
    NEW.synced_version := CASE WHEN NEW.last_sync_at IS NOT NULL THEN NEW.config_version END;
    NEW.run_id := NULL;
    NEW.failure_count := 0;
    NEW.put_off_since := NULL;
    NEW.condition_met_at := NULL;
    NEW.waits_for_key := NULL;
    NEW.follows := false;
    NEW.followed := false;
    NEW.upstreams_met_at := NULL;
    NEW.slots_through := NULL;
    NEW.claimed_at := NULL;
    NEW.over_at := NULL;
    NEW.claimed_for := NULL;
    NEW.wanted := false;
    NEW.synced_for := NULL;
    -- Slots of a cron schedule count from now, whenever it is planned.
    NEW.planned_through := CASE WHEN NEW.schedule_cron IS NOT NULL AND NEW.status = 'ACTIVE' THEN clock_timestamp() END;
    IF NEW.status = 'ACTIVE' THEN
        NEW := moves.planned(NEW, NEW.last_sync_at);
        PERFORM moves.wake(NEW, false);
    ELSIF NEW.trigger_requested_at IS NOT NULL THEN
        RAISE EXCEPTION 'connector % is disabled; enable it before you trigger it', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_trigger_disabled';
    ELSE
        NEW.next_sync_at := NULL;
        NEW.due_reason := NULL;
        NEW.slot_at := NULL;
        NEW.needs_plan := false;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- Refuses what only a move may write, and an id that would leave its documents and its run behind.
-- +goose StatementBegin
CREATE FUNCTION connectors_refuse_moves(old connectors, new connectors) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF (new.status, new.status_message, new.config_version, new.added_version, new.synced_version, new.listed_version, new.state, new.listing, new.last_sync_at, new.next_sync_at,
            new.due_reason, new.slot_at, new.slots_through, new.planned_through, new.needs_plan, new.claimed_at, new.over_at, new.claimed_for, new.wanted, new.synced_for, new.run_id,
            new.failure_count, new.docs_analyzed, new.deletions_allowed_at, new.next_parameters, new.parameters_due_at, new.kept_plan, new.put_off_since, new.condition_met_at, new.waits_for_key, new.follows, new.followed, new.upstreams_met_at)
        IS DISTINCT FROM
       (old.status, old.status_message, old.config_version, old.added_version, old.synced_version, old.listed_version, old.state, old.listing, old.last_sync_at, old.next_sync_at,
            old.due_reason, old.slot_at, old.slots_through, old.planned_through, old.needs_plan, old.claimed_at, old.over_at, old.claimed_for, old.wanted, old.synced_for, old.run_id,
            old.failure_count, old.docs_analyzed, old.deletions_allowed_at, old.next_parameters, old.parameters_due_at, old.kept_plan, old.put_off_since, old.condition_met_at, old.waits_for_key, old.follows, old.followed, old.upstreams_met_at) THEN
        RAISE EXCEPTION 'connector %: status, plan, run, state and counts are not written but moved', old.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_moved_only',
                HINT = 'Call a function of schema moves: enable, disable, trigger_sync, pick_up, fail, release, ... See docs/contract.md.';
    END IF;
    IF new.id <> old.id OR new.created_at IS DISTINCT FROM old.created_at THEN
        RAISE EXCEPTION 'connector %: id and created_at cannot be changed', old.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_id_stays',
                HINT = 'Delete the connector and add another.';
    END IF;
END $$;
-- +goose StatementEnd

-- Whether an UPDATE does nothing but seal the secrets of a configuration anew, with another key.
-- +goose StatementBegin
CREATE FUNCTION connector_resealed(old connectors, new connectors) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN to_jsonb(old) - 'config' - 'at_fault' - 'asks_condition' - 'asks_upstreams' - 'due_at' - 'waits_for_key'
        = to_jsonb(new) - 'config' - 'at_fault' - 'asks_condition' - 'asks_upstreams' - 'due_at' - 'waits_for_key'
        AND regexp_replace(old.config::text, '"enc:v1:[A-Za-z0-9_:-]*"', '"enc:v1"', 'g')
            = regexp_replace(new.config::text, '"enc:v1:[A-Za-z0-9_:-]*"', '"enc:v1"', 'g');
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION connectors_user_update() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment    timestamptz := clock_timestamp();
    was       connectors := OLD;
    changed   boolean := (NEW.type, NEW.config, NEW.scope, NEW.scope_id, NEW.user_id)
        IS DISTINCT FROM (OLD.type, OLD.config, OLD.scope, OLD.scope_id, OLD.user_id);
    recrond   boolean := (NEW.schedule_cron, NEW.time_zone, NEW.dst_gap, NEW.dst_overlap, NEW.once_per, NEW.calendar, NEW.calendar_use)
        IS DISTINCT FROM (OLD.schedule_cron, OLD.time_zone, OLD.dst_gap, OLD.dst_overlap, OLD.once_per, OLD.calendar, OLD.calendar_use);
    triggered boolean := NEW.trigger_requested_at IS NOT NULL
        AND NEW.trigger_requested_at IS DISTINCT FROM OLD.trigger_requested_at;
BEGIN
    -- On in the transactions of `echomind secrets rotate` alone; the comparison makes sure that nothing else passes with it.
    -- Never null: what is unknown and false are both looked at, and the comparison writes out the whole row twice.
    IF current_setting('echomind.resealing', true) IS NOT DISTINCT FROM 'on' AND connector_resealed(OLD, NEW) THEN
        RETURN NEW;
    END IF;
    PERFORM connectors_refuse_moves(OLD, NEW);
    NEW.updated_at := moment;
    IF NEW.type <> OLD.type AND (SELECT count(DISTINCT t.kind) FROM connector_types t WHERE t.name IN (NEW.type, OLD.type)) > 1 THEN
        RAISE EXCEPTION 'connector %: its type cannot become %, which is of another kind than %', OLD.id, NEW.type, OLD.type
            USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_kind_stays',
                HINT = 'What a source has stored would never be removed by a job. Delete the connector and add another.';
    END IF;
    IF NEW.condition IS DISTINCT FROM OLD.condition THEN
        PERFORM moves.end_unmet(ARRAY[OLD.id]);
    END IF;
    IF OLD.kept_plan IS NOT NULL THEN   -- its run has parameters: what changes is where it stands by itself
        was := moves.resumed(OLD);
        NEW := jsonb_populate_record(NEW, OLD.kept_plan);
        NEW.kept_plan := NULL;
        NEW.run_id := NULL;
    END IF;
    IF changed OR recrond OR (NEW.condition, NEW.refresh_freq_minutes) IS DISTINCT FROM (OLD.condition, OLD.refresh_freq_minutes) THEN
        NEW.condition_met_at := NULL;   -- it was asked for something else
        NEW.upstreams_met_at := NULL;
    END IF;
    IF changed THEN
        NEW.config_version := nextval('connector_config_versions');
        NEW.state := '{}';
        NEW.failure_count := 0;
        NEW.put_off_since := NULL;
        NEW.listing := NULL;
        NEW.deletions_allowed_at := NULL;   -- it was given for another source
        NEW.next_parameters := NULL;        -- and these for another configuration
        NEW.parameters_due_at := NULL;
        IF (NEW.type, NEW.user_id, NEW.scope, NEW.scope_id) IS DISTINCT FROM (OLD.type, OLD.user_id, OLD.scope, OLD.scope_id) THEN
            -- What it said is not for new viewers; that it is off, or has failed, still says why.
            NEW.status_message := CASE NEW.status WHEN 'DISABLED' THEN 'disabled before its type, user or scope changed'
                WHEN 'ERROR' THEN 'failed before its type, user or scope changed' END;
        END IF;
        IF OLD.run_id IS NULL AND OLD.listing IS NOT NULL THEN   -- what it spoke of is to be swept
            INSERT INTO unswept_runs (run_id, connector_id, config_version, outdated)
            VALUES (gen_random_uuid(), OLD.id, OLD.config_version, false);
        END IF;
    END IF;
    IF recrond THEN
        IF OLD.schedule_cron IS NOT NULL THEN
            NEW.slots_through := (moves.miss_slots(OLD, 'schedule changed before it could be claimed')).slots_through;
        END IF;
        -- Slots count from now, whenever it is planned, and where the clock has stepped back not from what had its verdict before;
        -- while it is off none is due.
        NEW.planned_through := CASE WHEN NEW.schedule_cron IS NOT NULL AND NEW.status <> 'DISABLED'
            THEN greatest(moment, NEW.slots_through) END;
    END IF;
    IF NEW.status = 'DISABLED' THEN
        IF triggered THEN
            RAISE EXCEPTION 'connector % is disabled; enable it before you trigger it', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_trigger_disabled';
        END IF;
    ELSIF NEW.run_id IS NOT NULL THEN
        IF changed THEN
            PERFORM moves.end_runs(ARRAY[OLD.run_id], 'superseded', 'configuration changed');
            NEW.status := 'ACTIVE';
            NEW.run_id := NULL;
            NEW.next_sync_at := moment;
            NEW.due_reason := 'changed';
            PERFORM moves.wake(NEW, true);
            IF NEW.type <> OLD.type THEN
                PERFORM moves.wake(OLD, true);
            END IF;
        END IF;   -- a trigger or a schedule in flight is looked at with the verdict
    ELSE
        NEW := connectors_replanned(was, NEW, changed, triggered,
            recrond OR (NEW.refresh_freq_minutes, NEW.spread_percent) IS DISTINCT FROM (OLD.refresh_freq_minutes, OLD.spread_percent)
                OR (NEW.run_at_once <> OLD.run_at_once AND NEW.schedule_cron IS NOT NULL AND NEW.claimed_at IS NULL));
        IF changed AND NEW.follows AND NEW.status = 'ERROR' AND NEW.next_sync_at IS NULL AND NOT NEW.needs_plan THEN
            NEW.status := 'ACTIVE';   -- it failed for good with what it was, and waits for the next end
            NEW.status_message := NULL;
        END IF;
        IF (NEW.next_sync_at, NEW.needs_plan, NEW.condition) IS DISTINCT FROM (OLD.next_sync_at, OLD.needs_plan, OLD.condition)
                OR (triggered AND NEW.condition IS NOT NULL) THEN   -- what has asked its condition is due without
            PERFORM moves.wake(NEW, false);
        END IF;
    END IF;
    IF OLD.kept_plan IS NOT NULL AND changed THEN
        PERFORM moves.end_runs(ARRAY[OLD.run_id], 'superseded', 'configuration changed');
        PERFORM moves.wake(OLD, true);
    ELSIF OLD.kept_plan IS NOT NULL THEN
        NEW.kept_plan := moves.kept(NEW);
        NEW := jsonb_populate_record(NEW, moves.kept(OLD));
        NEW.run_id := OLD.run_id;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- The plan of a connector at rest after its user's change. A slot that has passed is claimed as it stands, or gets its
-- verdict here.
-- +goose StatementBegin
CREATE FUNCTION connectors_replanned(
    old connectors, new connectors, changed boolean, triggered boolean, rescheduled boolean
) RETURNS connectors LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    IF rescheduled AND old.schedule_cron IS NULL THEN
        new.slots_through := (moves.miss_slots(old, 'schedule changed before it could be claimed')).slots_through;
    END IF;
    -- A cron schedule that has not begun yet still waits for its first slot, whatever its source has become.
    IF triggered OR (changed AND (new.refresh_freq_minutes IS NOT NULL OR (new.schedule_cron IS NOT NULL
            AND (new.run_at_once OR new.last_sync_at IS NOT NULL OR new.claimed_at IS NOT NULL OR old.status = 'ERROR')))) THEN
        -- What is due already keeps its place; its reason and its slot, too, unless that had its verdict above: the run answers both.
        IF old.due_reason = 'schedule' AND old.slot_at <= moment AND NOT rescheduled THEN
            new.next_sync_at := least(old.next_sync_at, moment);   -- its claim may have been put off
        ELSIF old.next_sync_at IS NULL OR old.next_sync_at > moment OR rescheduled THEN
            new.next_sync_at := least(old.next_sync_at, moment);
            new.due_reason := CASE WHEN triggered THEN 'manual' WHEN new.last_sync_at IS NULL THEN 'new' ELSE 'changed' END;
            new.slot_at := NULL;
            new.needs_plan := false;
        END IF;
    ELSIF rescheduled AND (old.due_reason IN ('schedule', 'new', 'changed') OR (new.status = 'ACTIVE' AND old.next_sync_at IS NULL)) THEN
        new := moves.planned(new, new.last_sync_at);
        IF new.status = 'ERROR' AND new.needs_plan THEN
            new.due_reason := 'schedule';   -- its next slot is still the next try
        END IF;
    END IF;
    IF old.due_reason = 'wait' AND new.due_reason IS DISTINCT FROM 'wait' THEN
        new.status_message := NULL;   -- it does not wait any more
    END IF;
    RETURN new;
END $$;
-- +goose StatementEnd

CREATE TRIGGER connectors_user_insert BEFORE INSERT ON connectors
    FOR EACH ROW EXECUTE FUNCTION connectors_user_insert();
-- A role that switches echomind.moving on gains nothing: it must also be one that may write a status, as the moves' owner is.
CREATE TRIGGER connectors_user_update BEFORE UPDATE ON connectors
    FOR EACH ROW WHEN (current_setting('echomind.moving', true) IS DISTINCT FROM 'on'
        OR NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE'))
    EXECUTE FUNCTION connectors_user_update();

-- A verdict is never edited: the ledger is appended to. What no week took is removed from runs_rest itself, see keep_ledger.
-- +goose StatementBegin
CREATE FUNCTION runs_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is appended to: a verdict is neither edited nor removed'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'runs_appended_only', HINT = 'Old weeks go by moves.keep_ledger.';
END $$;
-- +goose StatementEnd
CREATE TRIGGER runs_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON runs
    FOR EACH STATEMENT WHEN (current_setting('echomind.moving', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION runs_refuse();

-- +goose StatementBegin
CREATE FUNCTION connectors_user_delete() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM moves.miss_slots(CASE WHEN OLD.kept_plan IS NULL THEN OLD ELSE moves.resumed(OLD) END, 'connector deleted before it could be claimed');
    IF OLD.run_id IS NOT NULL THEN
        PERFORM moves.end_runs(ARRAY[OLD.run_id], 'superseded', 'connector deleted');
        PERFORM moves.wake(OLD, true);
    END IF;
    INSERT INTO deleted_connectors (id, config_version) VALUES (OLD.id, OLD.config_version) ON CONFLICT DO NOTHING;
    DELETE FROM imported_connectors WHERE connector_id = OLD.id;
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_user_delete BEFORE DELETE ON connectors
    FOR EACH ROW EXECUTE FUNCTION connectors_user_delete();

-- Whether the role at work may write jobs of the system: the schema's owner, an administrator, or services/api for a superadmin.
-- +goose StatementBegin
CREATE FUNCTION moves.administers() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- SET ROLE counts, and not the role of the function that asks.
    who name := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
BEGIN
    RETURN pg_has_role(who, 'echomind_administrator', 'MEMBER') OR has_column_privilege(who, 'connectors'::regclass, 'status', 'UPDATE')
        OR (pg_has_role(who, 'echomind_api', 'MEMBER') AND api.is_superadmin());
END $$;
-- +goose StatementEnd

-- Refuses a user's move of a job of the system.
-- +goose StatementBegin
CREATE FUNCTION moves.refuse_system(c connectors) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF c.scope = 'system' AND NOT moves.administers() THEN
        RAISE EXCEPTION 'connector % is a system job, %: administrators alone add, change, trigger, switch and delete those', c.id, c.type
            USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'connectors_system_administered',
                HINT = 'Use a login that is a member of echomind_administrator. See docs/operations.md.';
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION connectors_refuse_system() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM moves.refuse_system(OLD);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM moves.refuse_system(NEW);
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_system_added BEFORE INSERT ON connectors FOR EACH ROW
    WHEN (NEW.scope = 'system' AND (current_setting('echomind.moving', true) IS DISTINCT FROM 'on'
        OR NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE')))
    EXECUTE FUNCTION connectors_refuse_system();
CREATE TRIGGER connectors_system_changed BEFORE UPDATE ON connectors FOR EACH ROW
    WHEN ((OLD.scope = 'system' OR NEW.scope = 'system') AND (current_setting('echomind.moving', true) IS DISTINCT FROM 'on'
        OR NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE')))
    EXECUTE FUNCTION connectors_refuse_system();
CREATE TRIGGER connectors_system_deleted BEFORE DELETE ON connectors FOR EACH ROW
    WHEN (OLD.scope = 'system') EXECUTE FUNCTION connectors_refuse_system();

-- Switches a connector off and ends its run. False where it is off already, or does not exist.
-- +goose StatementBegin
CREATE FUNCTION moves.disable(connector integer, message text DEFAULT 'disabled by the user') RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c       connectors;
    was_run uuid;
BEGIN
    SELECT * INTO c FROM connectors WHERE id = connector FOR UPDATE;
    IF NOT FOUND OR c.status = 'DISABLED' THEN
        RETURN false;
    END IF;
    PERFORM moves.refuse_system(c);
    was_run := c.run_id;
    IF was_run IS NOT NULL THEN
        PERFORM moves.end_runs(ARRAY[was_run], 'superseded', 'disabled');
    END IF;
    IF c.kept_plan IS NOT NULL THEN
        c := moves.resumed(c);
    END IF;
    c := moves.miss_slots(c, 'disabled before it could be claimed');
    IF c.over_at IS NULL THEN
        c.over_at := clock_timestamp();
        c.claimed_for := NULL;
    END IF;
    c.status := 'DISABLED';
    c.status_message := left(message, 2000);
    c.put_off_since := NULL;
    c.run_id := NULL;
    c.next_sync_at := NULL;
    c.due_reason := NULL;
    c.slot_at := NULL;
    c.needs_plan := false;
    c.trigger_requested_at := NULL;
    c.deletions_allowed_at := NULL;
    c.next_parameters := NULL;
    c.parameters_due_at := NULL;
    c.condition_met_at := NULL;
    c.upstreams_met_at := NULL;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, was_run IS NOT NULL);
    PERFORM moves.note_change('connectors.disable', c.id::text, NULL, jsonb_build_object('message', c.status_message), c);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Switches a connector on, plans it from now, and forgets its failures. False where it is not DISABLED, or does not exist.
-- +goose StatementBegin
CREATE FUNCTION moves.enable(connector integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c connectors;
BEGIN
    SELECT * INTO c FROM connectors WHERE id = connector AND status = 'DISABLED' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM moves.refuse_system(c);
    c.status := 'ACTIVE';
    c.status_message := NULL;
    c.failure_count := 0;
    -- Slots while it was off are not due.
    c.planned_through := CASE WHEN c.schedule_cron IS NOT NULL THEN greatest(clock_timestamp(), c.slots_through) END;
    c := moves.planned(c, clock_timestamp());
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, false);
    PERFORM moves.note_change('connectors.enable', c.id::text, NULL, NULL, c);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Ends an open run for its user: PENDING, SYNCING -> ACTIVE, superseded, no failure counted, due next by its plan. What has asked for
-- the run does not ask again; what was asked for since reading began does. message says who: the ledger has it. False: the run is over,
-- or there is none.
-- +goose StatementBegin
CREATE FUNCTION moves.cancel(run uuid, message text DEFAULT 'cancelled by the user') RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c      connectors;
    moment timestamptz;
BEGIN
    SELECT k.* INTO c FROM connectors k WHERE k.id = (SELECT r.connector_id FROM open_runs r WHERE r.id = run) FOR UPDATE;
    IF run IS NULL OR c.run_id IS DISTINCT FROM run THEN
        RETURN false;
    END IF;
    PERFORM moves.refuse_system(c);
    PERFORM moves.end_runs(ARRAY[run], 'superseded', 'cancelled', left(coalesce(message, 'cancelled by the user'), 2000));
    IF c.status = 'PENDING' AND c.kept_plan IS NULL THEN   -- else it was asked for since, and for another run
        c.trigger_requested_at := NULL;
        c.deletions_allowed_at := NULL;
    END IF;
    moment := clock_timestamp();
    IF c.kept_plan IS NOT NULL THEN
        c := moves.resumed(c);
    ELSE
        c.status := 'ACTIVE';
        c.run_id := NULL;
        c.put_off_since := NULL;
        c.over_at := c.claimed_at;   -- slots that came since wait
        c.claimed_for := NULL;
        IF c.trigger_requested_at IS NOT NULL THEN
            c.next_sync_at := moment;
            c.due_reason := 'manual';
        ELSIF c.schedule_cron IS NOT NULL THEN
            c.needs_plan := true;
            c.due_reason := 'schedule';   -- at its next slot, also where it never synced
        ELSIF c.refresh_freq_minutes > 0 THEN
            c.next_sync_at := moves.interval_slot(c.id, moment, c.refresh_freq_minutes, c.spread_percent);
            c.due_reason := 'schedule';
            c.slot_at := c.next_sync_at;
        END IF;
    END IF;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
    PERFORM moves.note_change('runs.cancel', run::text, NULL, jsonb_build_object('message', message), c);
    RETURN true;
END $$;
-- +goose StatementEnd

-- A connector that is due only because it is new, or because its configuration has changed, waits for its next slot instead: an imported
-- job has its times, and is not done because it has moved. An interval counts from `since`, when it ran last elsewhere. False where it
-- is due for another reason, in flight or not at rest, has no slots, or does not exist.
-- +goose StatementBegin
CREATE FUNCTION moves.wait_for_slot(connector integer, since timestamptz DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c      connectors;
    moment timestamptz;
BEGIN
    SELECT * INTO c FROM connectors WHERE id = connector AND status = 'ACTIVE' FOR UPDATE;
    IF NOT FOUND OR c.trigger_requested_at IS NOT NULL OR (c.schedule_cron IS NULL AND coalesce(c.refresh_freq_minutes, 0) = 0)
        OR NOT (c.due_reason IN ('new', 'changed') OR (c.needs_plan AND c.due_reason IS NULL)) THEN
        RETURN false;
    END IF;
    PERFORM moves.refuse_system(c);
    moment := clock_timestamp();
    c.due_reason := 'schedule';
    c.upstreams_met_at := NULL;   -- what it was let go for is for the slot
    IF c.follows THEN
        UPDATE upstream_uses u SET seen = NULL WHERE u.connector_id = c.id AND u.seen IS NOT NULL;
    END IF;
    IF c.over_at IS NULL THEN
        c.over_at := moment;   -- also of one that was changed in flight
        c.claimed_for := NULL;
    END IF;
    IF c.schedule_cron IS NOT NULL THEN
        c.next_sync_at := NULL;
        c.slot_at := NULL;
        c.needs_plan := true;
    ELSE
        c.next_sync_at := greatest(moment, moves.interval_slot(c.id, least(moment, coalesce(since, c.last_sync_at)), c.refresh_freq_minutes, c.spread_percent));
        c.slot_at := c.next_sync_at;
    END IF;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, false);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Writes down that the next run of a connector may delete many documents at once.
-- +goose StatementBegin
CREATE FUNCTION moves.allow_deletions(connector integer, moment timestamptz) RETURNS void
    LANGUAGE plpgsql SET echomind.moving = 'on' AS $$
BEGIN
    UPDATE connectors SET deletions_allowed_at = moment WHERE id = connector;
END $$;
-- +goose StatementEnd

-- Asks for a run with parameters over the configuration of a connector, and returns when; takes back those that no run has yet, where they
-- are empty.
-- +goose StatementBegin
CREATE FUNCTION moves.keep_parameters(connector integer, parameters jsonb) RETURNS timestamptz
    LANGUAGE plpgsql SET echomind.moving = 'on' AS $$
DECLARE
    c      connectors;
    merged jsonb;
    sealed text;
BEGIN
    SELECT * INTO c FROM connectors k WHERE k.id = connector FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM moves.refuse_system(c);
    IF c.status = 'DISABLED' THEN
        RAISE EXCEPTION 'connector % is disabled; enable it before you trigger it', connector
            USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_trigger_disabled';
    END IF;
    IF NOT EXISTS (SELECT FROM connector_types t WHERE t.name = c.type AND t.kind = 'job') THEN
        RAISE EXCEPTION 'trigger_sync: connector % is a source: parameters are for jobs, what is stored of a source is what its configuration says; update that instead',
            connector USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(parameters) <> 'object' OR octet_length(parameters::text) > 16384 OR jsonb_path_exists(parameters, '$.**{31}') THEN
        RAISE EXCEPTION 'trigger_sync: parameters are % bytes of %, must be an object of at most 16384, nested at most 30 levels deep', octet_length(parameters::text),
            jsonb_typeof(parameters) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT k.key INTO sealed FROM jsonb_each(parameters) k
    WHERE k.value::text LIKE '%"enc:v1:%' OR (c.config -> k.key)::text LIKE '%"enc:v1:%' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'trigger_sync: parameter % is a secret: a run has those of its connector; update the connector instead', sealed
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    merged := config_merged(c.config, parameters);
    IF octet_length(merged::text) > 65536 OR jsonb_path_exists(merged, '$.**{31}') THEN
        RAISE EXCEPTION 'trigger_sync: the configuration has % bytes with these parameters, must have at most 65536, nested at most 30 levels deep',
            octet_length(merged::text) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    c.next_parameters := nullif(parameters, '{}');
    c.parameters_due_at := CASE WHEN c.next_parameters IS NOT NULL THEN clock_timestamp() END;
    UPDATE connectors k SET next_parameters = c.next_parameters, parameters_due_at = c.parameters_due_at WHERE k.id = connector;
    PERFORM moves.wake(c, false);
    RETURN c.parameters_due_at;
END $$;
-- +goose StatementEnd

-- Asks for a sync now: of a connector at rest at once, of one in flight again after it, unless reading has not begun.
-- allow_deletions: it may delete many documents at once. The pick-up hands that to the run, and a run that ends without having
-- completed, or in the middle of its listing, to the next. A change, a disabling, or a failure that is not tried again takes it back.
-- parameters: what a run of its own has over the configuration, a JSON merge patch. It answers nothing that the connector is due for, and leaves
-- where that stands as it is; a trigger without parameters leaves it, one with others takes its place, and an empty one takes it back.
-- Null where there is no such connector; an error (connectors_trigger_disabled) while it is disabled.
-- +goose StatementBegin
CREATE FUNCTION moves.trigger_sync(connector integer, allow_deletions boolean DEFAULT false, parameters jsonb DEFAULT NULL) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'off' SET lock_timeout = '3s' AS $$
DECLARE
    asked timestamptz;
BEGIN
    IF allow_deletions AND parameters IS NOT NULL THEN
        RAISE EXCEPTION 'trigger_sync: parameters are for jobs, which delete nothing: allow_deletions does not go with them'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF parameters IS NOT NULL THEN
        asked := moves.keep_parameters(connector, parameters);
    END IF;
    IF asked IS NULL THEN
        UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = connector RETURNING trigger_requested_at INTO asked;
    END IF;
    IF allow_deletions AND asked IS NOT NULL THEN
        PERFORM moves.allow_deletions(connector, asked);
    END IF;
    PERFORM moves.note_change('connectors.sync', connector::text, NULL, jsonb_build_object('allow_deletions', coalesce(allow_deletions, false),
        'parameters', moves.kept_config(parameters, NULL)), c) FROM connectors c WHERE c.id = connector;
    RETURN asked;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.trigger_sync(integer, boolean, jsonb);
DROP FUNCTION moves.keep_parameters(integer, jsonb);
DROP FUNCTION moves.allow_deletions(integer, timestamptz);
DROP FUNCTION moves.wait_for_slot(integer, timestamptz);
DROP FUNCTION moves.cancel(uuid, text);
DROP FUNCTION moves.enable(integer);
DROP FUNCTION moves.disable(integer, text);
DROP TRIGGER connectors_system_deleted ON connectors;
DROP TRIGGER connectors_system_changed ON connectors;
DROP TRIGGER connectors_system_added ON connectors;
DROP FUNCTION connectors_refuse_system();
DROP FUNCTION moves.refuse_system(connectors);
DROP FUNCTION moves.administers();
DROP TRIGGER connectors_user_delete ON connectors;
DROP TRIGGER runs_refuse ON runs;
DROP FUNCTION runs_refuse();
DROP TRIGGER connectors_user_update ON connectors;
DROP TRIGGER connectors_user_insert ON connectors;
DROP FUNCTION connectors_user_delete();
DROP FUNCTION connectors_user_update();
DROP FUNCTION connector_resealed(connectors, connectors);
DROP FUNCTION connectors_replanned(connectors, connectors, boolean, boolean, boolean);
DROP FUNCTION connectors_refuse_moves(connectors, connectors);
DROP FUNCTION connectors_user_insert();
