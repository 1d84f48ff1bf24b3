-- Calendars: each version of their times, from when on.
CREATE TABLE chaos.calendar_events (
    seq       bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    name      text NOT NULL,
    time_zone text NOT NULL,
    entries   text NOT NULL
);
CREATE FUNCTION chaos.on_calendar() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO chaos.calendar_events (name, time_zone, entries) VALUES (NEW.name, NEW.time_zone, NEW.entries::text);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_write AFTER INSERT OR UPDATE ON calendars FOR EACH ROW EXECUTE FUNCTION chaos.on_calendar();

-- What conditions of the harness ask: how things stand in a matter that a job's config names, "met", "not met", "null", "raises" or "slow".
CREATE TABLE chaos.matters (
    name   text PRIMARY KEY,
    stands text NOT NULL
);
GRANT USAGE ON SCHEMA chaos TO echomind_conditions;
GRANT SELECT ON chaos.matters TO echomind_conditions;
CREATE TABLE chaos.matter_events (
    seq    bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    name   text NOT NULL,
    stands text NOT NULL
);
CREATE FUNCTION chaos.on_matter() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO chaos.matter_events (name, stands) VALUES (NEW.name, NEW.stands);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_write AFTER INSERT OR UPDATE ON chaos.matters FOR EACH ROW EXECUTE FUNCTION chaos.on_matter();

-- Blackout windows: each version of whom they hold, from when on; calendar null: it is gone. Only what types and owners say of a connector is looked at.
CREATE TABLE chaos.blackout_events (
    seq               bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at                timestamptz NOT NULL DEFAULT clock_timestamp(),
    name              text NOT NULL,
    calendar          text,
    user_id           integer,
    types             text[],
    except_connectors integer[]
);
CREATE FUNCTION chaos.on_blackout() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO chaos.blackout_events (name, calendar, user_id, types, except_connectors)
    SELECT b.name, CASE WHEN TG_OP <> 'DELETE' THEN b.calendar END, b.user_id, (SELECT w.types FROM blackout_windows w WHERE w.name = b.name), b.except_connectors
    FROM (SELECT (coalesce(NEW, OLD)).*) b;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_write AFTER INSERT OR UPDATE OR DELETE ON blackouts FOR EACH ROW EXECUTE FUNCTION chaos.on_blackout();
