-- +goose Up
-- The scheduler's moves: claim, plan, redispatch, rescue. It sets PENDING and nothing else.

-- Locks up to `batch` due connectors of a type for the transaction, the longest due first, skipping what is locked. `cap`
-- bounds how many of the type are in flight; 0 = no cap. Claimers of a capped type take turns: without it two of them count
-- the same free places, and the places go from owner to owner; `share` is how many of a hundred one of them may hold. `refused`
-- are connectors whose claim was refused: they leave their place to the next. Those whose messages have more than `most_bytes` together
-- stay due, but for the first, and are not read: to write them out is what costs most.
-- next_parameters of a row says that it is to be claimed for the run that was asked for with them: it comes after what the connector is due for
-- by itself, unless a sync of its own is over since.
-- A sort would have the planner take all that is due of a type, or of an owner, for a few rows; and compiling the hops from owner
-- to owner, which it takes for many, takes twenty times as long as they do.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_due(
    due_type text, cap integer, batch integer, moment timestamptz DEFAULT NULL, refused integer[] DEFAULT NULL,
    share integer DEFAULT 100, most_bytes bigint DEFAULT 2097152
) RETURNS SETOF connectors
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' SET enable_sort = off SET jit = off AS $$
DECLARE
    free  integer := batch;
    due   refcursor;
    c     connectors;
    size  bigint;
    bytes bigint := 0;
    last  integer;
    turn  integer;
BEGIN
    moment := coalesce(moment, clock_timestamp());
    IF cap > 0 THEN
        PERFORM pg_advisory_xact_lock(hashtext('echomind.claim'), hashtext(due_type));
        -- A statement of its own: it sees what the claimer before has committed.
        SELECT cap - count(*) INTO free FROM (SELECT FROM open_runs WHERE type = due_type LIMIT cap) r;
        PERFORM moves.note_waiting(due_type, free < batch);
        free := least(free, batch);
    END IF;
    IF free <= 0 THEN
        RETURN;
    ELSIF cap > 0 THEN
        turn := coalesce((SELECT t.served FROM owner_turns t WHERE t.type = due_type), 0);
        OPEN due FOR SELECT * FROM moves.lock_by_owner(due_type, cap, free, share, moment, refused);
    ELSE
        OPEN due FOR SELECT * FROM connectors
            WHERE type = due_type AND due_at <= moment AND (refused IS NULL OR id <> ALL (refused))
            ORDER BY due_at LIMIT free FOR UPDATE SKIP LOCKED;
    END IF;
    LOOP
        FETCH due INTO c;
        EXIT WHEN NOT FOUND;
        IF c.parameters_due_at IS NULL THEN
            NULL;
        ELSIF c.next_sync_at <= moment AND NOT c.asks_condition AND NOT c.asks_upstreams AND (c.over_at > c.parameters_due_at) IS NOT TRUE THEN
            c.next_parameters := NULL;
        ELSE
            c.next_sync_at := c.parameters_due_at;
            c.due_reason := 'manual';
            c.slot_at := NULL;
            c.claimed_at := NULL;
            c.condition_met_at := NULL;
            c.upstreams_met_at := NULL;
        END IF;
        size := moves.message_bytes(config_merged(c.config, c.next_parameters), c.state, c.listing)
            + CASE WHEN c.follows THEN 40 * (SELECT count(*) FROM run_after a WHERE a.connector_id = c.id) ELSE 0 END;   -- 50,000 in a batch: see see_ends
        bytes := bytes + size;
        IF bytes > most_bytes AND bytes > size THEN
            -- The next claim begins with who has got none of this one; but behind all owners that were passed over, where those of
            -- whom something was found between them have got theirs.
            IF cap > 0 THEN
                INSERT INTO owner_turns AS t (type, served) VALUES (due_type, last)
                    ON CONFLICT (type) DO UPDATE SET served = EXCLUDED.served
                    WHERE CASE WHEN turn < t.served THEN last > turn AND last < t.served ELSE last > turn OR last < t.served END;
            END IF;
            EXIT;
        END IF;
        last := c.user_id;
        RETURN NEXT c;
    END LOOP;
    CLOSE due;
END $$;
-- +goose StatementEnd

-- Writes down whether a type waits for a place. Of a row that somebody holds nothing: that is a verdict's transaction, however
-- long it stays open, and wakes the scheduler when it commits; where it does not commit, the row says what it said. The scheduler
-- that has left something due looks again after some seconds whatever the row says.
-- +goose StatementBegin
CREATE FUNCTION moves.note_waiting(due_type text, yes boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM waiting_types t WHERE t.name = due_type;
    IF NOT FOUND THEN
        INSERT INTO waiting_types (name, waits) VALUES (due_type, yes) ON CONFLICT DO NOTHING;
    ELSE
        PERFORM FROM waiting_types t WHERE t.name = due_type AND t.waits <> yes FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE waiting_types SET waits = yes WHERE name = due_type;
        END IF;
    END IF;
END $$;
-- +goose StatementEnd

-- What of a connector its message carries: at most 64 KiB of each, in text as it is sent to the scheduler.
-- +goose StatementBegin
CREATE FUNCTION moves.message_bytes(config jsonb, state jsonb, listing jsonb) RETURNS bigint
    LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(config::text) + octet_length(state::text) + coalesce(octet_length(listing::text), 0)
$$;
-- +goose StatementEnd

-- Writes the verdict of slots that no run answers, of connectors that the transaction has locked. Those of a cron schedule are behind
-- planned_through, and have none; an interval's slot may have one where the clock has stepped back.
-- answers: [{id, passed: [{verdict, reason, first, last, count}]}].
-- +goose StatementBegin
CREATE FUNCTION moves.answer_slots(answers jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM moves.end_unmet(ARRAY(SELECT a.id FROM jsonb_to_recordset(answers) a(id integer, passed jsonb) WHERE a.passed IS NOT NULL));
    INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at, status,
        reason, config_version)
    SELECT gen_random_uuid(), c.id, c.type, 'schedule', p.first, p.last, p.count, p.first, clock_timestamp(), clock_timestamp(),
        p.verdict, p.reason, c.config_version
    FROM jsonb_to_recordset(answers) a(id integer, passed jsonb),
        jsonb_to_recordset(a.passed) p(verdict text, reason text, first timestamptz, last timestamptz, count integer),
        LATERAL (SELECT l.id, l.type, l.config_version, l.added_version, l.schedule_cron, l.slots_through FROM connectors l WHERE l.id = a.id OFFSET 0) c
    WHERE p.count > 0 AND (c.schedule_cron IS NOT NULL OR p.first > coalesce(c.slots_through, '-infinity')
        OR moves.is_unanswered(c.id, c.added_version, p.first));
END $$;
-- +goose StatementEnd

-- Writes down the places of concurrency keys that the runs of claims have. claims: see claim.
-- +goose StatementBegin
CREATE FUNCTION moves.take_places(claims jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_places (key, run_id, connector_id, user_id)
    SELECT u.key, r.id, r.connector_id, r.user_id FROM jsonb_to_recordset(claims) k(run_id uuid, keys text[]),
        LATERAL (SELECT o.* FROM open_runs o WHERE o.id = k.run_id AND o.has_keys OFFSET 0) r, unnest(k.keys) u(key);
END $$;
-- +goose StatementEnd

-- ACTIVE, ERROR -> PENDING for connectors that the transaction has locked: opens their runs, and writes the slots that have
-- passed before them. A slot that has its verdict already is claimed without one, and a run that stands open all
-- the same is closed, so that no row ever stops the batch. claims: [{id, run_id, slot, passed, through, asked, follows, keys}], passed: see answer_slots;
-- through: up to where slots of a cron schedule are answered; asked: for the run with parameters, see claim_asked; follows: it runs after others, see
-- see_ends; keys: the concurrency keys of which it has a place, see key_room.
-- Each row is read by its key alone, see put: a plan that knew they are due would read all that is due off an index.
-- +goose StatementBegin
CREATE FUNCTION moves.claim(claims jsonb, moment timestamptz) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    ids     integer[];
    run_ids uuid[];
    slots   timestamptz[];
    through timestamptz[];
    passed  boolean;
    stale   uuid[];
    keyed   boolean[];
    claimed integer;
    asked   integer[];
    for_it  uuid[];
    taken   integer := 0;
    keyed_too boolean[];
BEGIN
    SELECT array_agg(k.id), array_agg(k.run_id), array_agg(k.slot), array_agg(k.through), coalesce(bool_or(k.passed IS NOT NULL), false), array_agg(k.keys IS NOT NULL)
        INTO ids, run_ids, slots, through, passed, keyed
        FROM jsonb_to_recordset(claims) k(id integer, run_id uuid, slot timestamptz, passed jsonb, through timestamptz, asked boolean, keys text[])
        WHERE k.asked IS NOT TRUE;
    SELECT array_agg(k.id), array_agg(k.run_id), array_agg(k.keys IS NOT NULL) INTO asked, for_it, keyed_too
        FROM jsonb_to_recordset(claims) k(id integer, run_id uuid, asked boolean, keys text[]) WHERE k.asked;
    stale := ARRAY(SELECT r.id FROM unnest(ids || asked) k(id), LATERAL (SELECT o.id FROM open_runs o WHERE o.connector_id = k.id OFFSET 0) r);
    IF stale <> '{}' THEN
        PERFORM moves.end_runs(stale, 'superseded', 'claimed again');
    END IF;
    IF asked IS NOT NULL THEN
        taken := moves.claim_asked(asked, for_it, keyed_too, moment);
    END IF;
    PERFORM moves.end_unmet(ids);
    IF passed THEN
        PERFORM moves.answer_slots(claims);
    END IF;
    PERFORM moves.see_ends(claims) WHERE jsonb_path_exists(claims, '$[*].follows');
    INSERT INTO open_runs (id, connector_id, type, user_id, trigger, slot, due_at, started_at, config_version, dispatched_at, has_keys)
    SELECT k.run_id, c.id, c.type, coalesce(c.user_id, 0), c.due_reason,
        CASE WHEN c.due_reason = 'schedule'
            AND (k.slot > coalesce(c.slots_through, '-infinity') OR moves.is_unanswered(c.id, c.added_version, k.slot)) THEN k.slot END,
        c.next_sync_at, clock_timestamp(), c.config_version, moment, k.keyed
    FROM unnest(ids, run_ids, slots, keyed) k(id, run_id, slot, keyed), LATERAL (SELECT * FROM connectors l WHERE l.id = k.id OFFSET 0) c
    WHERE c.status IN ('ACTIVE', 'ERROR') AND c.next_sync_at IS NOT NULL;
    UPDATE connectors c
    SET status = 'PENDING', run_id = k.run_id, next_sync_at = NULL, due_reason = NULL, slot_at = NULL, needs_plan = false, condition_met_at = NULL, upstreams_met_at = NULL,
        status_message = CASE WHEN c.due_reason = 'wait' THEN NULL ELSE c.status_message END,
        slots_through = CASE WHEN c.due_reason = 'schedule' THEN greatest(c.slots_through, k.slot, k.through)
            ELSE greatest(c.slots_through, k.through) END,
        planned_through = coalesce(k.through, CASE WHEN c.due_reason = 'schedule' AND c.schedule_cron IS NOT NULL THEN k.slot END, c.planned_through),
        -- One that was not over goes on.
        claimed_at = CASE WHEN c.over_at IS NULL THEN coalesce(c.claimed_at, moment) ELSE moment END, over_at = NULL,
        claimed_for = CASE WHEN c.over_at IS NOT NULL OR c.due_reason IN ('schedule', 'new', 'manual', 'changed', 'upstream') THEN coalesce(k.slot, moment)
            ELSE coalesce(c.claimed_for, moment) END,
        wanted = (c.wanted AND c.over_at IS NULL) OR c.due_reason IN ('manual', 'changed') OR c.trigger_requested_at IS NOT NULL
            OR (c.last_sync_at IS NOT NULL AND c.synced_version IS DISTINCT FROM c.config_version)
    FROM unnest(ids, run_ids, slots, through) k(id, run_id, slot, through),
        LATERAL (SELECT l.ctid, l.next_sync_at FROM connectors l WHERE l.id = k.id OFFSET 0) at
    WHERE c.ctid = at.ctid AND c.status IN ('ACTIVE', 'ERROR') AND at.next_sync_at IS NOT NULL;
    GET DIAGNOSTICS claimed = ROW_COUNT;
    IF true = ANY (keyed || keyed_too) THEN
        PERFORM moves.take_places(claims);
    END IF;
    RETURN claimed + taken;
END $$;
-- +goose StatementEnd

-- ACTIVE, ERROR -> PENDING for connectors that the transaction has locked, each for the run that was asked for with parameters. Where it
-- stands by itself is kept, and has its turn once that run is over: the moments of its own syncs, and its slots, stay as they are.
-- +goose StatementBegin
CREATE FUNCTION moves.claim_asked(ids integer[], run_ids uuid[], keyed boolean[], moment timestamptz) RETURNS integer
    LANGUAGE plpgsql AS $$
DECLARE
    claimed integer;
BEGIN
    INSERT INTO open_runs (id, connector_id, type, user_id, trigger, due_at, started_at, config_version, parameters, dispatched_at, has_keys)
    SELECT k.run_id, c.id, c.type, coalesce(c.user_id, 0), 'manual', c.parameters_due_at, clock_timestamp(), c.config_version, c.next_parameters, moment, k.keyed
    FROM unnest(ids, run_ids, keyed) k(id, run_id, keyed), LATERAL (SELECT * FROM connectors l WHERE l.id = k.id OFFSET 0) c
    WHERE c.due_at IS NOT NULL AND c.next_parameters IS NOT NULL;
    UPDATE connectors c
    SET status = 'PENDING', run_id = k.run_id, kept_plan = moves.kept(c), next_sync_at = NULL, due_reason = NULL, slot_at = NULL,
        needs_plan = false, condition_met_at = NULL, upstreams_met_at = NULL, next_parameters = NULL, parameters_due_at = NULL
    FROM unnest(ids, run_ids) k(id, run_id), LATERAL (SELECT l.ctid, l.due_at, l.next_parameters FROM connectors l WHERE l.id = k.id OFFSET 0) at
    WHERE c.ctid = at.ctid AND at.due_at IS NOT NULL AND at.next_parameters IS NOT NULL;
    GET DIAGNOSTICS claimed = ROW_COUNT;
    RETURN claimed;
END $$;
-- +goose StatementEnd

-- Locks connectors whose cron schedule has to be worked out; not those whose plan was refused.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_unplanned(batch integer, refused integer[] DEFAULT NULL) RETURNS SETOF connectors
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
    SELECT * FROM connectors WHERE needs_plan AND (refused IS NULL OR id <> ALL (refused))
    ORDER BY id LIMIT batch FOR UPDATE SKIP LOCKED
$$;
-- +goose StatementEnd

-- Writes down what conditions have passed over, of connectors that the transaction has locked: a slot in the line of those before it that
-- were passed over for the same reason, what was due without a slot in a line of its own. plans: see plan.
-- +goose StatementBegin
CREATE FUNCTION moves.skip_unmet(plans jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    PERFORM moves.end_unmet(ARRAY(
        SELECT p.id FROM jsonb_to_recordset(plans) p(id integer, unmet text, unmet_slot timestamptz),
            LATERAL (SELECT l.config_version FROM connectors l WHERE l.id = p.id OFFSET 0) c,
            LATERAL (SELECT l.* FROM unmet_slots l WHERE l.connector_id = p.id OFFSET 0) u
        WHERE p.unmet IS NOT NULL AND (p.unmet_slot IS NULL OR p.unmet <> u.reason OR c.config_version <> u.config_version
            OR u.first_slot < p.unmet_slot - interval '20 hours' OR u.first_at < moment - interval '20 hours' OR p.unmet_slot <= u.last_slot)));
    INSERT INTO runs (id, connector_id, type, trigger, missed_count, due_at, started_at, completed_at, status, reason, config_version)
    SELECT gen_random_uuid(), p.id, c.type, c.due_reason, 1, c.next_sync_at, moment, moment, 'skipped', p.unmet, c.config_version
    FROM jsonb_to_recordset(plans) p(id integer, unmet text, unmet_slot timestamptz),
        LATERAL (SELECT l.* FROM connectors l WHERE l.id = p.id OFFSET 0) c
    WHERE p.unmet IS NOT NULL AND p.unmet_slot IS NULL AND c.slot_at IS NULL;   -- else its verdict is in passed
    INSERT INTO unmet_slots AS u (connector_id, type, config_version, reason, first_slot, last_slot, count, first_at, last_at)
    SELECT p.id, c.type, c.config_version, p.unmet, p.unmet_slot, p.unmet_slot, 1, moment, moment
    FROM jsonb_to_recordset(plans) p(id integer, unmet text, unmet_slot timestamptz),
        LATERAL (SELECT l.* FROM connectors l WHERE l.id = p.id OFFSET 0) c
    WHERE p.unmet IS NOT NULL AND p.unmet_slot IS NOT NULL AND (p.unmet_slot > coalesce(c.slots_through, '-infinity')
        OR moves.is_unanswered(c.id, c.added_version, p.unmet_slot))
    ON CONFLICT (connector_id) DO UPDATE SET last_slot = EXCLUDED.last_slot, count = u.count + 1, last_at = EXCLUDED.last_at;
END $$;
-- +goose StatementEnd

-- Writes down the next slots of connectors that the transaction has locked, or why there is none: of cron schedules that are to be
-- worked out, where no run answers the slot that was due, and where its claim is put off. Of an interval the next slot is worked out here,
-- where none is named.
-- unmet: its condition was asked, and has passed unmet_slot over, or what was due without a slot: why; the failures are forgotten, and a sync that was changed in flight is over.
-- plans: [{id, next_sync_at, due_reason, slot_at, planned_through, problem, passed, unmet, unmet_slot, missed}], passed: see answer_slots.
-- missed: it has waited in vain for one that it runs after, with what was due without a slot: why.
-- +goose StatementBegin
CREATE FUNCTION moves.plan(plans jsonb) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    planned integer;
    moment  timestamptz := clock_timestamp();
BEGIN
    IF jsonb_path_exists(plans, '$[*].passed') THEN
        PERFORM moves.answer_slots(plans);
    END IF;
    IF jsonb_path_exists(plans, '$[*].unmet') THEN
        PERFORM moves.skip_unmet(plans);
        PERFORM moves.use_ends(ARRAY(SELECT p.id FROM jsonb_to_recordset(plans) p(id integer, unmet text),
            LATERAL (SELECT l.follows FROM connectors l WHERE l.id = p.id OFFSET 0) c WHERE p.unmet IS NOT NULL AND c.follows));
    END IF;
    IF jsonb_path_exists(plans, '$[*].missed') THEN
        INSERT INTO runs (id, connector_id, type, trigger, missed_count, due_at, started_at, completed_at, status, reason, config_version)
        SELECT gen_random_uuid(), p.id, c.type, c.due_reason, 1, c.next_sync_at, moment, moment, 'missed', p.missed, c.config_version
        FROM jsonb_to_recordset(plans) p(id integer, missed text), LATERAL (SELECT l.* FROM connectors l WHERE l.id = p.id OFFSET 0) c
        WHERE p.missed IS NOT NULL;
    END IF;
    UPDATE connectors c
    SET needs_plan = false, condition_met_at = NULL, upstreams_met_at = NULL, status = CASE WHEN b.bad THEN 'DISABLED' WHEN p.unmet IS NULL THEN c.status ELSE 'ACTIVE' END,
        failure_count = CASE WHEN p.unmet IS NULL THEN c.failure_count ELSE 0 END, next_sync_at = coalesce(p.next_sync_at, n.slot),
        -- What has failed and has no next slot is no failure for good.
        due_reason = CASE WHEN b.bad THEN NULL WHEN p.problem IS NOT NULL AND p.next_sync_at IS NULL AND c.status = 'ERROR' THEN 'schedule' ELSE coalesce(p.due_reason, n.reason) END,
        slot_at = CASE WHEN p.next_sync_at IS NULL THEN n.slot ELSE p.slot_at END, planned_through = coalesce(p.planned_through, c.planned_through),
        slots_through = greatest(c.slots_through, a.through, p.unmet_slot),
        over_at = CASE WHEN b.bad OR p.unmet IS NOT NULL THEN coalesce(c.over_at, moment) ELSE c.over_at END,
        claimed_for = CASE WHEN (NOT b.bad AND p.unmet IS NULL) OR c.over_at IS NOT NULL THEN c.claimed_for END,
        -- As disable leaves them.
        put_off_since = CASE WHEN NOT b.bad THEN c.put_off_since END, trigger_requested_at = CASE WHEN NOT b.bad THEN c.trigger_requested_at END,
        deletions_allowed_at = CASE WHEN NOT b.bad THEN c.deletions_allowed_at END, next_parameters = CASE WHEN NOT b.bad THEN c.next_parameters END,
        parameters_due_at = CASE WHEN NOT b.bad THEN c.parameters_due_at END,
        status_message = coalesce(p.problem, CASE WHEN c.status = 'ACTIVE' OR p.unmet IS NOT NULL THEN NULL ELSE c.status_message END)
    FROM jsonb_to_recordset(plans) p(id integer, next_sync_at timestamptz, due_reason text, slot_at timestamptz,
            planned_through timestamptz, problem text, bad boolean, passed jsonb, unmet text, unmet_slot timestamptz)
        LEFT JOIN LATERAL (SELECT max(s.last) AS through FROM jsonb_to_recordset(p.passed) s(last timestamptz)) a ON true
        LEFT JOIN LATERAL (SELECT moves.interval_slot(l.id, moment, l.refresh_freq_minutes, l.spread_percent) AS slot, 'schedule' AS reason
            FROM connectors l WHERE l.id = p.id AND p.bad IS NOT TRUE AND l.schedule_cron IS NULL AND l.refresh_freq_minutes > 0 OFFSET 0) n ON true
        CROSS JOIN LATERAL (SELECT coalesce(p.bad, false) AS bad) b
    WHERE c.id = p.id AND (NOT b.bad OR c.status IN ('ACTIVE', 'ERROR')) AND (c.needs_plan OR c.due_reason = 'schedule' OR ((c.condition IS NOT NULL OR c.follows) AND c.next_sync_at IS NOT NULL));
    GET DIAGNOSTICS planned = ROW_COUNT;
    RETURN planned;
END $$;
-- +goose StatementEnd

-- Where a connector stands whose calendar has changed; needs_plan is null where the change has nothing to say.
-- +goose StatementBegin
CREATE FUNCTION moves.replanned(c connectors, moment timestamptz, OUT needs_plan boolean, OUT next_sync_at timestamptz, OUT slot_at timestamptz)
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    apart interval;
BEGIN
    IF c.status NOT IN ('ACTIVE', 'ERROR') THEN
        RETURN;
    ELSIF c.schedule_cron IS NOT NULL THEN
        IF c.due_reason = 'schedule' OR (c.status = 'ACTIVE' AND c.next_sync_at IS NULL) THEN
            needs_plan := true;
        END IF;
    ELSIF c.due_reason = 'schedule' AND c.next_sync_at > moment AND c.refresh_freq_minutes > 0 AND starts_with((SELECT r.reason FROM (
            SELECT h.trigger, h.reason, h.started_at FROM runs h WHERE h.connector_id = c.id ORDER BY h.started_at DESC LIMIT 100) r
            WHERE r.trigger = 'schedule' ORDER BY r.started_at DESC LIMIT 1), 'calendar `') THEN
        needs_plan := false;
        apart := CASE WHEN c.spread_percent = 0 THEN interval '0' ELSE make_interval(mins => c.refresh_freq_minutes) / greatest(1, round(100.0 / c.spread_percent)) END;
        next_sync_at := least(c.next_sync_at, moves.interval_slot(c.id, moment + apart - make_interval(mins => c.refresh_freq_minutes),
            c.refresh_freq_minutes, c.spread_percent));
        slot_at := next_sync_at;
    END IF;
END $$;
-- +goose StatementEnd

-- Has schedules that name a calendar which has changed planned anew: a batch of connectors at rest, of any such calendar. An interval's slot is
-- left to its claim, which asks the calendar; one that a calendar has put off comes within the connector's spread from now. What is in
-- flight looks at the calendar when it is over, but for a run with parameters, behind which its connector stands as it is kept. A row that
-- somebody holds waits, and no other for it. It says how many it has looked at.
-- +goose StatementBegin
CREATE FUNCTION moves.replan_calendars(batch integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
    k      calendar_changes;
    locked integer[];
    moment timestamptz := clock_timestamp();
BEGIN
    FOR k IN SELECT * FROM calendar_changes ORDER BY random() LIMIT 20 FOR UPDATE SKIP LOCKED LOOP
        locked := ARRAY(SELECT c.id FROM calendar_users u, LATERAL (SELECT o.id FROM connectors o WHERE o.id = u.connector_id FOR UPDATE SKIP LOCKED) c
            WHERE u.calendar = k.name AND u.version < k.version LIMIT batch);
        UPDATE connectors c SET needs_plan = p.needs_plan, condition_met_at = NULL, upstreams_met_at = NULL, next_sync_at = p.next_sync_at, slot_at = p.slot_at
        FROM unnest(locked) l(id), LATERAL (SELECT o.ctid, r.* FROM connectors o, moves.replanned(o, moment) r WHERE o.id = l.id AND o.run_id IS NULL OFFSET 0) p
        WHERE c.ctid = p.ctid AND p.needs_plan IS NOT NULL;
        UPDATE connectors c SET kept_plan = c.kept_plan || jsonb_build_object('needs_plan', p.needs_plan, 'condition_met_at', NULL, 'upstreams_met_at', NULL,
            'next_sync_at', p.next_sync_at, 'slot_at', p.slot_at)
        FROM unnest(locked) l(id), LATERAL (SELECT o.ctid, r.* FROM connectors o, moves.replanned(moves.resumed(o), moment) r
            WHERE o.id = l.id AND o.kept_plan IS NOT NULL OFFSET 0) p
        WHERE c.ctid = p.ctid AND p.needs_plan IS NOT NULL;
        UPDATE calendar_users u SET version = k.version WHERE u.calendar = k.name AND u.connector_id = ANY (locked);
        IF NOT EXISTS (SELECT FROM calendar_users u WHERE u.calendar = k.name AND u.version < k.version) THEN
            DELETE FROM calendar_changes WHERE name = k.name;
        END IF;
        EXIT WHEN locked <> '{}';
    END LOOP;
    RETURN coalesce(cardinality(locked), 0);
END $$;
-- +goose StatementEnd

-- Locks those of these connectors whose condition is to be asked, and that are due; skips what is locked.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_asking(ids integer[], moment timestamptz DEFAULT NULL) RETURNS SETOF connectors
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
    SELECT c.* FROM unnest(ids) k(id), LATERAL (SELECT * FROM connectors l WHERE l.id = k.id AND l.asks_condition
        AND l.next_sync_at <= coalesce(moment, clock_timestamp()) FOR UPDATE SKIP LOCKED) c
$$;
-- +goose StatementEnd

-- Writes down that the conditions of connectors that the transaction has locked are met: they are due as others are.
-- +goose StatementBegin
CREATE FUNCTION moves.note_met(ids integer[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    met integer;
BEGIN
    UPDATE connectors c SET condition_met_at = clock_timestamp()
    FROM unnest(ids) k(id), LATERAL (SELECT l.ctid FROM connectors l WHERE l.id = k.id OFFSET 0) at
    WHERE c.ctid = at.ctid AND c.asks_condition;
    GET DIAGNOSTICS met = ROW_COUNT;
    RETURN met;
END $$;
-- +goose StatementEnd

-- ACTIVE -> ERROR for connectors that the transaction has locked and whose conditions have failed: they are asked again for the same slot
-- after the backoff of the failure policy; DISABLED after max_retries in a row. failures: [{id, problem}].
-- +goose StatementBegin
CREATE FUNCTION moves.fail_conditions(failures jsonb) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    f      record;
    c      connectors;
    was    connectors;
    failed connectors[] := '{}';
BEGIN
    FOR f IN SELECT * FROM jsonb_to_recordset(failures) r(id integer, problem text) LOOP
        SELECT * INTO c FROM connectors k WHERE k.id = f.id AND k.asks_condition;
        CONTINUE WHEN NOT FOUND;
        PERFORM moves.end_unmet(ARRAY[c.id]);
        INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, reason, error_message, config_version)
        VALUES (gen_random_uuid(), c.id, c.type, c.due_reason, c.next_sync_at, clock_timestamp(), clock_timestamp(), 'failed',
            'condition failed', left(f.problem, 2000), c.config_version);
        IF c.failure_count + 1 >= c.max_retries AND c.scope <> 'system' THEN
            c := moves.miss_slots(c, 'disabled before it could be claimed');
        END IF;
        was := c;
        c.status_message := left(f.problem, 2000);
        c.once_per := NULL;   -- the slot is not over, whatever else may be tried
        c := moves.failed(c, false);
        IF c.status = 'ERROR' THEN
            c.due_reason := was.due_reason;
            c.slot_at := was.slot_at;
        END IF;
        failed := failed || c;
    END LOOP;
    PERFORM moves.put(failed);
    RETURN cardinality(failed);
END $$;
-- +goose StatementEnd

-- Locks slots of cron schedules that passed before their user's change, to be counted; not those whose verdict was refused.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_passed(batch integer, refused bigint[] DEFAULT NULL) RETURNS SETOF passed_slots
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
    SELECT * FROM passed_slots WHERE refused IS NULL OR id <> ALL (refused) ORDER BY id LIMIT batch FOR UPDATE SKIP LOCKED
$$;
-- +goose StatementEnd

-- Writes their verdict. passed: [{id, passed}], passed: see answer_slots; none where there was no slot.
-- +goose StatementBegin
CREATE FUNCTION moves.miss_passed(passed jsonb) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    answered integer;
BEGIN
    INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, completed_at, status,
        reason, config_version)
    SELECT gen_random_uuid(), s.connector_id, s.type, 'schedule', p.first, p.last, p.count, p.first,
        clock_timestamp(), clock_timestamp(), p.verdict, p.reason, s.config_version
    FROM jsonb_to_recordset(passed) k(id bigint, passed jsonb)
    JOIN passed_slots s ON s.id = k.id,
        jsonb_to_recordset(k.passed) p(verdict text, reason text, first timestamptz, last timestamptz, count integer)
    WHERE p.count > 0;
    DELETE FROM passed_slots s USING jsonb_to_recordset(passed) k(id bigint) WHERE s.id = k.id;
    GET DIAGNOSTICS answered = ROW_COUNT;
    RETURN answered;
END $$;
-- +goose StatementEnd

-- Takes over connectors whose message is not in the stream any more, to be published again under the same run. oldest is
-- the dispatch of the oldest queued message, null where none is queued; a moment ahead of Postgres's clock is no evidence.
-- Of two schedulers that ask, one gets the row.
-- The batch is read off the index, in its order. The planner expects that next to no run has its connector, and would join and
-- sort all that wait: with 250,000 of them 5 s for each batch. Those whose messages have more than most_bytes together stay for the
-- next batch, but for the first.
-- +goose StatementBegin
CREATE FUNCTION moves.redispatch(
    lost_type text, oldest timestamptz, grace interval, max_grace interval, batch integer, moment timestamptz DEFAULT NULL,
    most_bytes bigint DEFAULT 2097152
) RETURNS TABLE (run_id uuid, dispatched_at timestamptz, dispatches integer, reason text, connector_id integer, user_id integer,
        scope text, scope_id text, config jsonb, state jsonb, listing jsonb, config_version bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s'
    SET enable_sort = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    present    timestamptz := coalesce(moment, clock_timestamp());
    before     timestamptz := least(coalesce(oldest, present), present);
    run        uuid;
    connector  integer;
    size       bigint;
    bytes      bigint := 0;
    run_ids    uuid[] := '{}';
    ids        integer[] := '{}';
    lost CURSOR FOR
        SELECT r.id, c.id, moves.message_bytes(config_merged(c.config, r.parameters), c.state, c.listing)
        FROM open_runs r
        JOIN connectors c ON c.id = r.connector_id AND c.run_id = r.id AND c.status = 'PENDING'
        WHERE r.type = lost_type AND r.picked_up_at IS NULL AND r.dispatched_at < before - grace
            AND r.dispatched_at + least(power(2, least(r.dispatches - 1, 10)) * grace, max_grace) < present
        ORDER BY r.dispatched_at
        LIMIT batch
        FOR UPDATE OF c SKIP LOCKED;
BEGIN
    OPEN lost;
    LOOP
        FETCH lost INTO run, connector, size;
        EXIT WHEN NOT FOUND;
        bytes := bytes + size;
        EXIT WHEN bytes > most_bytes AND bytes > size;
        run_ids := run_ids || run;
        ids := ids || connector;
    END LOOP;
    CLOSE lost;
    RETURN QUERY
    UPDATE open_runs r SET dispatched_at = present, dispatches = r.dispatches + 1, not_taken = r.not_taken + r.acknowledged::integer,
        acknowledged = false, publish_error = NULL
    -- Each by its key: on statistics of a quiet time the planner would read all that waits for each.
    FROM unnest(run_ids, ids) k(run, connector),
        LATERAL (SELECT * FROM connectors l WHERE l.id = k.connector OFFSET 0) c,
        LATERAL (SELECT o.ctid FROM open_runs o WHERE o.id = k.run OFFSET 0) at
    WHERE r.ctid = at.ctid AND r.picked_up_at IS NULL AND r.dispatched_at < before - grace
    RETURNING r.id, r.dispatched_at, r.dispatches, r.trigger, c.id, coalesce(c.user_id, 0), c.scope, c.scope_id,
        config_merged(c.config, r.parameters), c.state, c.listing, c.config_version;
END $$;
-- +goose StatementEnd

-- Writes down what the broker has answered: that it has taken a run's message, where there is no problem. Only what it has taken
-- counts in not_taken; of whatever nobody could write down nothing counts. A run that was published again since, or that somebody
-- holds, who is picking it up, stays as it is. answers: [{id, dispatched_at, problem}].
-- +goose StatementBegin
CREATE FUNCTION moves.note_published(answers jsonb) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    noted integer;
BEGIN
    UPDATE open_runs r SET acknowledged = a.problem IS NULL, publish_error = left(a.problem, 500)
    FROM jsonb_to_recordset(answers) a(id uuid, dispatched_at timestamptz, problem text),
        LATERAL (SELECT o.ctid FROM open_runs o WHERE o.id = a.id AND o.dispatched_at = a.dispatched_at AND o.picked_up_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED) at
    WHERE r.ctid = at.ctid;
    GET DIAGNOSTICS noted = ROW_COUNT;
    RETURN noted;
END $$;
-- +goose StatementEnd

-- The connectors whose worker is lost, locked: their worker has not beaten since it was last looked at and its lease has run
-- out, or they are a subscriber's that keeps no lease and that has had them for longer than foreign_timeout. again: those that
-- fail; else those that are claimed again at once. It leaves out fully stored runs, which complete, and connectors in `refused`.
-- The runs are read off the index, worker by worker, and no more than the batch: however many are lost. The planner must not
-- know better, so that the callers forbid it everything but a nested loop over keys.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_lost(silent jsonb, foreign_timeout interval, again boolean, batch integer, refused integer[])
    RETURNS SETOF connectors LANGUAGE plpgsql AS $$
DECLARE
    k     record;
    taken integer;
    -- A constant for the planner: of a moment that it cannot know it expects a third of all runs without a lease.
    long_ago timestamptz := clock_timestamp() - foreign_timeout;
BEGIN
    FOR k IN SELECT s.id, s.beats FROM jsonb_to_recordset(silent) s(id uuid, beats bigint)
        WHERE EXISTS (SELECT FROM open_runs r WHERE r.worker_id = s.id AND r.fails_if_lost = again AND NOT r.whole
            AND (refused IS NULL OR r.connector_id <> ALL (refused)))
        LIMIT batch
    LOOP
        EXIT WHEN batch <= 0;
        -- Held, so that a heartbeat which comes now waits for the outcome; and shared, so that the scheduler's look and
        -- semantic's, which take different runs, do not keep each other away look after look.
        PERFORM FROM workers w WHERE w.id = k.id AND w.beats = k.beats AND w.expires_at < (SELECT clock_timestamp())
            FOR SHARE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY SELECT c.* FROM open_runs r
            JOIN connectors c ON c.id = r.connector_id AND c.run_id = r.id AND c.status = 'SYNCING'
            WHERE r.worker_id = k.id AND r.fails_if_lost = again AND NOT r.whole
                AND (refused IS NULL OR r.connector_id <> ALL (refused))
            -- Before the limit: a batch of runs that are held would leave none for the others.
            LIMIT batch FOR UPDATE OF c, r SKIP LOCKED;
        GET DIAGNOSTICS taken = ROW_COUNT;
        batch := batch - taken;
    END LOOP;
    RETURN QUERY SELECT c.* FROM open_runs r
        JOIN connectors c ON c.id = r.connector_id AND c.run_id = r.id AND c.status = 'SYNCING'
        WHERE r.picked_up_at IS NOT NULL AND r.worker_id IS NULL AND r.drain_seq IS NULL AND NOT r.whole
            AND r.fails_if_lost = again AND r.picked_up_at < long_ago
            AND (refused IS NULL OR r.connector_id <> ALL (refused))
        LIMIT batch FOR UPDATE OF c, r SKIP LOCKED;
END $$;
-- +goose StatementEnd

-- Locks a run that is to fail, and looks at it again: whether it still misses something, and drains or not as it did. False also
-- where somebody holds it (a store, a subscriber's hold, which may last): the next look finds it, and it stops nobody else.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_run(run uuid, drains boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM open_runs r WHERE r.id = run AND NOT r.whole AND (r.drain_seq IS NOT NULL) = drains FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- Claims the connector of a lost worker's run again, both locked: under a new run, which it returns.
-- +goose StatementBegin
CREATE FUNCTION moves.claim_again(c connectors) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    present timestamptz := clock_timestamp();
    lost    record;
    next    uuid;
BEGIN
    SELECT o.deletions_allowed_at, o.parameters, o.due_at, o.has_keys INTO lost FROM open_runs o WHERE o.id = c.run_id;
    c.status_message := 'worker lost: its lease ran out';
    c.deletions_allowed_at := coalesce(c.deletions_allowed_at, lost.deletions_allowed_at);
    next := gen_random_uuid();
    IF lost.has_keys THEN
        UPDATE key_places p SET run_id = next WHERE p.run_id = c.run_id;
    END IF;
    PERFORM moves.end_runs(ARRAY[c.run_id], 'failed', 'worker lost', c.status_message);
    c.run_id := next;
    c.status := 'PENDING';
    c.failure_count := c.failure_count + 1;
    c.put_off_since := NULL;   -- the failure is seen
    INSERT INTO open_runs (id, connector_id, type, user_id, trigger, due_at, started_at, config_version, parameters, dispatched_at, has_keys)
    VALUES (c.run_id, c.id, c.type, coalesce(c.user_id, 0), 'rescue',
        CASE WHEN lost.parameters IS NULL THEN present ELSE lost.due_at END, present, c.config_version, lost.parameters, present, lost.has_keys);
    PERFORM moves.put(ARRAY[c]);
    RETURN c.run_id;
END $$;
-- +goose StatementEnd

-- SYNCING -> PENDING under a new run, which fences the lost worker: at once, the first time. The old run has failed; the new
-- one keeps the places it holds, so that no cap and no limit of a key applies. silent: [{id, beats}]. With apart each is tried in a savepoint of
-- its own, only after a whole batch failed: a refused row is named in `problem`; refused are connectors that are left out.
-- +goose StatementBegin
CREATE FUNCTION moves.rescue(silent jsonb, foreign_timeout interval, batch integer, apart boolean DEFAULT false,
        refused integer[] DEFAULT NULL, most_bytes bigint DEFAULT 2097152)
    RETURNS TABLE (lost_run uuid, run_id uuid, connector_id integer, type text, user_id integer, scope text, scope_id text,
        config jsonb, state jsonb, listing jsonb, config_version bigint, dispatched_at timestamptz, problem text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    c       connectors;
    run     uuid;
    because text;
    bytes   bigint := 0;
BEGIN
    FOR c IN SELECT * FROM moves.lock_lost(silent, foreign_timeout, false, batch, refused) LOOP
        EXIT WHEN bytes >= most_bytes;
        bytes := bytes + moves.message_bytes(c.config, c.state, c.listing);
        CONTINUE WHEN NOT moves.lock_run(c.run_id, false);
        IF apart THEN
            BEGIN
                because := NULL;
                run := NULL;
                run := moves.claim_again(c);
            EXCEPTION WHEN data_exception OR integrity_constraint_violation OR raise_exception THEN
                because := SQLERRM;
            END;
        ELSE
            run := moves.claim_again(c);
        END IF;
        RETURN QUERY SELECT c.run_id, run, c.id, c.type, coalesce(c.user_id, 0), c.scope, c.scope_id, config_merged(c.config, r.parameters), c.state, c.listing,
            c.config_version, r.dispatched_at, because
        FROM (SELECT) one LEFT JOIN open_runs r ON r.id = run;
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.claim_asked(integer[], uuid[], boolean[], timestamptz);
DROP FUNCTION moves.rescue(jsonb, interval, integer, boolean, integer[], bigint);
DROP FUNCTION moves.claim_again(connectors);
DROP FUNCTION moves.lock_run(uuid, boolean);
DROP FUNCTION moves.lock_lost(jsonb, interval, boolean, integer, integer[]);
DROP FUNCTION moves.miss_passed(jsonb);
DROP FUNCTION moves.lock_passed(integer, bigint[]);
DROP FUNCTION moves.note_published(jsonb);
DROP FUNCTION moves.redispatch(text, timestamptz, interval, interval, integer, timestamptz, bigint);
DROP FUNCTION moves.fail_conditions(jsonb);
DROP FUNCTION moves.note_met(integer[]);
DROP FUNCTION moves.lock_asking(integer[], timestamptz);
DROP FUNCTION moves.replan_calendars(integer);
DROP FUNCTION moves.replanned(connectors, timestamptz);
DROP FUNCTION moves.plan(jsonb);
DROP FUNCTION moves.skip_unmet(jsonb);
DROP FUNCTION moves.lock_unplanned(integer, integer[]);
DROP FUNCTION moves.claim(jsonb, timestamptz);
DROP FUNCTION moves.take_places(jsonb);
DROP FUNCTION moves.answer_slots(jsonb);
DROP FUNCTION moves.message_bytes(jsonb, jsonb, jsonb);
DROP FUNCTION moves.note_waiting(text, boolean);
DROP FUNCTION moves.lock_due(text, integer, integer, timestamptz, integer[], integer, bigint);
