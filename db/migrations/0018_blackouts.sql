-- +goose Up
-- Times in which no run of some connectors is claimed: docs/schedules.md. Administrators write them. Their times are a calendar's.
CREATE TABLE blackouts (
    name              text PRIMARY KEY
        CONSTRAINT blackouts_name_form CHECK (name ~ '^[a-z][a-z0-9_-]*$' AND length(name) <= 63),
    calendar          text NOT NULL
        CONSTRAINT blackouts_calendar_known REFERENCES calendars (name),
    -- Whom it holds: those of an owner (user_id of connectors), a type, or a provider (of connector_types); null = any. All three null: every
    -- connector. A system job is held where its type is named.
    user_id           integer
        CONSTRAINT blackouts_user_id_positive CHECK (user_id > 0),
    type              text
        CONSTRAINT blackouts_type_known REFERENCES connector_types (name),
    provider          text,
    -- Connectors that it does not hold, whatever else it says.
    except_connectors integer[]
        CONSTRAINT blackouts_except_form CHECK (array_ndims(except_connectors) = 1 AND cardinality(except_connectors) BETWEEN 1 AND 100
            AND array_position(except_connectors, NULL) IS NULL),
    -- What becomes of slots within its times: they are skipped, or wait for the end. What answers no slot waits in any case.
    mode              text NOT NULL
        CONSTRAINT blackouts_mode_known CHECK (mode IN ('skip', 'defer')),
    -- Over how many minutes behind its end those that have waited are spread.
    spread_minutes    integer NOT NULL DEFAULT 10
        CONSTRAINT blackouts_spread_range CHECK (spread_minutes BETWEEN 0 AND 1440),
    -- A new one for each change.
    version           bigint NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by        text,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by        text
);

-- Connectors whose claim a window has put off, and until when. A row says nothing any more once its connector is due at another moment:
-- whoever moves it there need not know of windows.
CREATE TABLE blackout_holds (
    connector_id integer NOT NULL,
    -- Whether it is the run that was asked for with parameters which waits.
    asked        boolean NOT NULL,
    blackout     text NOT NULL,
    -- Of the window and its calendar, as they stood.
    version      bigint NOT NULL,
    until        timestamptz NOT NULL,
    spread       interval NOT NULL,
    -- When its slot is too old; null = never.
    latest       timestamptz,
    PRIMARY KEY (connector_id, asked)
);
-- release_held: whom a window holds that has changed since.
CREATE INDEX blackout_holds_version ON blackout_holds (blackout, version);
-- release_held: what is over.
CREATE INDEX blackout_holds_until ON blackout_holds (until);

-- The windows with their times. types are those that one holds; null = any. Types of the system are held where they are named. version is another after each change of it, or of its calendar.
CREATE VIEW blackout_windows AS
SELECT b.name, b.mode, b.spread_minutes, b.user_id,
    CASE WHEN b.type IS NOT NULL OR b.provider IS NOT NULL THEN ARRAY(SELECT t.name FROM connector_types t
        WHERE (b.type IS NULL AND NOT t.system OR t.name = b.type) AND (b.provider IS NULL OR t.provider = b.provider) ORDER BY t.name) END AS types,
    b.except_connectors, b.version + k.version AS version, k.version AS calendar_version, k.time_zone, k.entries
FROM blackouts b JOIN calendars k ON k.name = b.calendar;

-- The windows that may hold connectors of the viewer's: those of no owner, and of the viewer. The exceptions that the viewer sees.
CREATE VIEW api.blackouts AS
SELECT b.name, b.calendar, b.user_id, b.type, b.provider, ARRAY(SELECT e.id FROM unnest(b.except_connectors) e(id) WHERE api.sees_connector(e.id)) AS except_connectors,
    b.mode, b.spread_minutes, b.updated_at, b.version, k.time_zone, k.entries
FROM blackouts b JOIN calendars k ON k.name = b.calendar
WHERE api.is_superadmin() OR (api.viewer_id() IS NOT NULL AND coalesce(b.user_id, api.viewer_id()) = api.viewer_id());

-- The windows as superadmins write them.
CREATE VIEW api.changeable_blackouts AS
SELECT b.name, b.calendar, b.user_id, b.type, b.provider, b.except_connectors, b.mode, b.spread_minutes, b.version
FROM blackouts b WHERE api.is_superadmin() WITH CHECK OPTION;

-- Refuses what cannot be, gives a window its version, and has those looked at whom it holds.
-- +goose StatementBegin
CREATE FUNCTION blackouts_write() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM pg_advisory_xact_lock(hashtext('echomind.blackouts'));   -- two at once would count the same
        IF (SELECT count(*) FROM blackouts) >= 100 AND NOT EXISTS (SELECT FROM blackouts b WHERE b.name = NEW.name) THEN
            RAISE EXCEPTION 'blackout %: there are 100 already', NEW.name USING ERRCODE = 'check_violation',
                SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = 'blackouts_count', HINT = 'Delete one, or give an existing one''s calendar more times.';
        END IF;
        NEW.created_by := coalesce(NEW.created_by, (SELECT a.person FROM moves.actor() a));
        NEW.updated_by := coalesce(NEW.updated_by, NEW.created_by);
    ELSIF TG_OP = 'UPDATE' THEN
        IF NEW.name <> OLD.name THEN
            RAISE EXCEPTION 'blackout %: its name cannot be changed', OLD.name USING ERRCODE = 'check_violation',
                SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = 'blackouts_name_stays', HINT = 'Add another, and delete this one.';
        END IF;
        NEW.updated_at := clock_timestamp();
        IF NEW.updated_by IS NOT DISTINCT FROM OLD.updated_by THEN
            NEW.updated_by := (SELECT a.person FROM moves.actor() a);
        END IF;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        IF NEW.provider IS NOT NULL AND NOT EXISTS (SELECT FROM connector_types t WHERE t.provider = NEW.provider)
            AND (TG_OP = 'INSERT' OR NEW.provider IS DISTINCT FROM OLD.provider) THEN
            RAISE EXCEPTION 'blackout %: provider is %, and no connector type names it', NEW.name, quote_literal(left(NEW.provider, 63)) USING ERRCODE = 'check_violation',
                SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = 'blackouts_provider_known', HINT = 'connector_types.provider has those that there are.';
        END IF;
        NEW.version := version_after(CASE WHEN TG_OP = 'UPDATE' THEN OLD.version END);
    END IF;
    PERFORM pg_notify('connectors_due', '');
    RETURN coalesce(NEW, OLD);
END $$;
-- +goose StatementEnd
CREATE TRIGGER blackouts_write BEFORE INSERT OR UPDATE OR DELETE ON blackouts FOR EACH ROW EXECUTE FUNCTION blackouts_write();
CREATE TRIGGER blackouts_audit AFTER INSERT OR UPDATE OR DELETE ON blackouts FOR EACH ROW EXECUTE FUNCTION audit_row('blackouts', '{name}', '{}');

-- Who is held as one owner's, or of one type, and becomes another's, is looked at again.
-- +goose StatementBegin
CREATE FUNCTION connectors_leave_blackout() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE blackout_holds SET version = 0 WHERE connector_id = NEW.id;
    IF FOUND THEN
        PERFORM pg_notify('connectors_due', '');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_leave_blackout AFTER UPDATE OF user_id, type ON connectors FOR EACH ROW
    WHEN (NEW.user_id IS DISTINCT FROM OLD.user_id OR NEW.type <> OLD.type) EXECUTE FUNCTION connectors_leave_blackout();
-- So is, at once, one whose slot becomes too late at another moment: its place may be behind that.
-- +goose StatementBegin
CREATE FUNCTION connectors_hold_until() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE blackout_holds SET version = 0, spread = '0' WHERE connector_id = NEW.id;
    IF FOUND THEN
        PERFORM pg_notify('connectors_due', '');
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_hold_until AFTER UPDATE OF deadline_minutes, catch_up, catch_up_minutes ON connectors FOR EACH ROW
    WHEN ((NEW.deadline_minutes, NEW.catch_up, NEW.catch_up_minutes) IS DISTINCT FROM (OLD.deadline_minutes, OLD.catch_up, OLD.catch_up_minutes))
    EXECUTE FUNCTION connectors_hold_until();
-- Who is deleted is held no more.
-- +goose StatementBegin
CREATE FUNCTION connectors_gone_from_blackout() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM blackout_holds;
    ELSE
        DELETE FROM blackout_holds h WHERE h.connector_id = OLD.id;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_gone_from_blackout AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_gone_from_blackout();
CREATE TRIGGER connectors_blackout_none AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_gone_from_blackout();
-- +goose StatementBegin
CREATE FUNCTION connector_types_leave_blackout() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE blackouts SET version = version WHERE provider IN (OLD.provider, NEW.provider);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connector_types_leave_blackout AFTER UPDATE OF provider ON connector_types FOR EACH ROW
    WHEN (NEW.provider IS DISTINCT FROM OLD.provider) EXECUTE FUNCTION connector_types_leave_blackout();

-- Puts off connectors that the transaction has locked until a window's end; what they are due for stays, but a condition is asked again then.
-- holds: [{id, asked, until, blackout, version, spread, latest}], spread in seconds; asked: see claim_asked.
-- +goose StatementBegin
CREATE FUNCTION moves.hold_blackout(holds jsonb) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    held integer;
BEGIN
    UPDATE connectors c
    SET next_sync_at = CASE WHEN h.asked THEN c.next_sync_at ELSE h.until END, condition_met_at = CASE WHEN h.asked THEN c.condition_met_at END,
        parameters_due_at = CASE WHEN h.asked THEN h.until ELSE c.parameters_due_at END
    FROM jsonb_to_recordset(holds) h(id integer, asked boolean, until timestamptz),
        LATERAL (SELECT l.ctid FROM connectors l WHERE l.id = h.id OFFSET 0) at
    WHERE c.ctid = at.ctid AND c.run_id IS NULL AND CASE WHEN h.asked THEN c.parameters_due_at ELSE c.next_sync_at END < h.until;
    GET DIAGNOSTICS held = ROW_COUNT;
    INSERT INTO blackout_holds AS b (connector_id, asked, blackout, version, until, spread, latest)
    SELECT h.id, h.asked, h.blackout, h.version, h.until, make_interval(secs => h.spread), h.latest
    FROM jsonb_to_recordset(holds) h(id integer, asked boolean, until timestamptz, blackout text, version bigint, spread double precision, latest timestamptz)
    ON CONFLICT (connector_id, asked) DO UPDATE SET blackout = EXCLUDED.blackout, version = EXCLUDED.version, until = EXCLUDED.until, spread = EXCLUDED.spread,
        latest = EXCLUDED.latest;
    RETURN held;
END $$;
-- +goose StatementEnd

-- When a connector is due that a window has put off, and holds no more.
-- +goose StatementBegin
CREATE FUNCTION moves.released_at(h blackout_holds, moment timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE AS $$
    SELECT least(h.until, moment + CASE WHEN h.latest > moment THEN least(h.spread, (h.latest - moment) / 2) ELSE h.spread END * (((h.connector_id::bigint * 2654435761) & 4294967295) / 4294967296.0)::double precision)
$$;
-- +goose StatementEnd

-- Has a batch of connectors looked at again whom a window has put off that was changed or deleted since, or whose calendar was; each at its place within
-- the window's spread from now. Behind a run with parameters a connector stands as it is kept. A row that somebody holds waits, and no other for it.
-- Rows whose time is over are forgotten. It says how many it has looked at.
-- +goose StatementBegin
CREATE FUNCTION moves.release_held(batch integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    held   text := '';
    stands bigint;
    stale  blackout_holds[];
BEGIN
    LOOP
        held := (SELECT h.blackout FROM blackout_holds h WHERE h.blackout > held ORDER BY h.blackout LIMIT 1);
        EXIT WHEN held IS NULL;
        stands := (SELECT w.version FROM blackout_windows w WHERE w.name = held);
        stale := ARRAY(SELECT o FROM (SELECT a FROM blackout_holds a WHERE a.blackout = held AND a.version < coalesce(stands, 9223372036854775807)
                UNION ALL SELECT a FROM blackout_holds a WHERE a.blackout = held AND a.version > stands) u(o),
            LATERAL (SELECT FROM connectors c WHERE c.id = (o).connector_id FOR UPDATE SKIP LOCKED) c LIMIT batch);
        CONTINUE WHEN stale = '{}';
        UPDATE connectors c
        SET next_sync_at = CASE WHEN h.asked THEN c.next_sync_at ELSE at.due END,
            slot_at = CASE WHEN NOT h.asked AND c.slot_at = h.until THEN at.due ELSE c.slot_at END,   -- an interval's, whose last slot was skipped
            parameters_due_at = CASE WHEN h.asked THEN at.due ELSE c.parameters_due_at END
        FROM unnest(stale) h, LATERAL (SELECT o.ctid, moves.released_at(h, moment) AS due FROM connectors o WHERE o.id = h.connector_id OFFSET 0) at
        WHERE c.ctid = at.ctid AND c.run_id IS NULL AND CASE WHEN h.asked THEN c.parameters_due_at ELSE c.next_sync_at END = h.until
            AND (h.asked OR c.schedule_cron IS NULL OR c.slot_at IS DISTINCT FROM h.until);   -- the slot that it waits for is that one: nothing holds it any more
        UPDATE connectors c
        SET kept_plan = c.kept_plan || jsonb_build_object('next_sync_at', at.due)
            || CASE WHEN (c.kept_plan ->> 'slot_at')::timestamptz = h.until THEN jsonb_build_object('slot_at', at.due) ELSE '{}' END
        FROM unnest(stale) h, LATERAL (SELECT o.ctid, moves.released_at(h, moment) AS due FROM connectors o WHERE o.id = h.connector_id OFFSET 0) at
        WHERE c.ctid = at.ctid AND NOT h.asked AND (c.kept_plan ->> 'next_sync_at')::timestamptz = h.until
            AND (c.schedule_cron IS NULL OR (c.kept_plan ->> 'slot_at')::timestamptz IS DISTINCT FROM h.until);
        DELETE FROM blackout_holds b USING unnest(stale) h WHERE b.connector_id = h.connector_id AND b.asked = h.asked;
        EXIT;
    END LOOP;
    -- Last, when nothing more is waited for: two calls that each forgot what the other lets go would wait for each other.
    DELETE FROM blackout_holds h USING (SELECT o.ctid FROM blackout_holds o WHERE o.until < moment - interval '1 hour'
        ORDER BY o.until LIMIT batch FOR UPDATE SKIP LOCKED) at WHERE h.ctid = at.ctid;
    RETURN coalesce(cardinality(stale), 0);
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION blackouts_write(), connectors_leave_blackout(), connectors_hold_until(), connectors_gone_from_blackout(), connector_types_leave_blackout(), moves.hold_blackout(jsonb),
    moves.released_at(blackout_holds, timestamptz), moves.release_held(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.hold_blackout(jsonb), moves.release_held(integer) TO echomind_scheduler;
GRANT SELECT ON blackouts, blackout_windows, blackout_holds TO echomind_scheduler, echomind_console;
GRANT SELECT ON api.blackouts, blackout_windows TO echomind_api;
GRANT SELECT, INSERT (name, calendar, user_id, type, provider, except_connectors, mode, spread_minutes),
    UPDATE (calendar, user_id, type, provider, except_connectors, mode, spread_minutes), DELETE ON api.changeable_blackouts TO echomind_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON blackouts TO echomind_administrator;
GRANT SELECT ON blackout_windows TO echomind_administrator;   -- whether what it has written stands
-- Whoever writes a type's provider takes its connectors out of windows.
GRANT INSERT (provider), UPDATE (provider) ON connector_types TO echomind_administrator;

-- +goose Down
REVOKE INSERT (provider), UPDATE (provider) ON connector_types FROM echomind_administrator;
DROP FUNCTION moves.release_held(integer);
DROP FUNCTION moves.released_at(blackout_holds, timestamptz);
DROP FUNCTION moves.hold_blackout(jsonb);
DROP TRIGGER connector_types_leave_blackout ON connector_types;
DROP FUNCTION connector_types_leave_blackout();
DROP TRIGGER connectors_blackout_none ON connectors;
DROP TRIGGER connectors_gone_from_blackout ON connectors;
DROP FUNCTION connectors_gone_from_blackout();
DROP TRIGGER connectors_hold_until ON connectors;
DROP FUNCTION connectors_hold_until();
DROP TRIGGER connectors_leave_blackout ON connectors;
DROP FUNCTION connectors_leave_blackout();
DROP VIEW api.changeable_blackouts;
DROP VIEW api.blackouts;
DROP VIEW blackout_windows;
DROP TABLE blackout_holds;
DROP TABLE blackouts;
DROP FUNCTION blackouts_write();
