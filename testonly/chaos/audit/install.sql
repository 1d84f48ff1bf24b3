-- What the audit reads: every move of connectors, runs, workers and documents, and what is wrong at the moment it happens.
-- One sequence numbers all events, so that they stand in one order.
CREATE SCHEMA chaos;
CREATE SEQUENCE chaos.events;

CREATE TABLE chaos.connector_events (
    seq                 bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Not later than any clock that the statement itself has read.
    began               timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- When its transaction began.
    opened              timestamptz NOT NULL DEFAULT transaction_timestamp(),
    owner               integer,
    txid                bigint NOT NULL DEFAULT txid_current(),
    op                  text NOT NULL,
    connector_id        integer NOT NULL,
    old_type            text, type text,
    old_status          text, status text,
    old_run             uuid, run uuid,
    failures            integer, max_retries integer,
    old_due_reason      text, due_reason text,
    old_slot            timestamptz, slot timestamptz,
    old_planned         timestamptz, planned timestamptz,
    cron                text, time_zone text, dst_gap text, dst_overlap text,
    -- What may keep a slot from running, and whether the condition was met, or somebody asked, before this move.
    once_per            text, calendar text, calendar_use text, condition text,
    met                 boolean NOT NULL DEFAULT false, triggered boolean NOT NULL DEFAULT false,
    -- What a claim says that its sync is for.
    claimed_for         timestamptz,
    config_version      bigint NOT NULL,
    -- Whether a user changed the configuration.
    reconfigured        boolean NOT NULL,
    -- Whether what a user asked for is not asked for any more.
    answered            boolean NOT NULL,
    -- Whether it is in a run with parameters. Its due reason and its slot are those that it has by itself.
    asked               boolean NOT NULL,
    -- Only where it changed.
    old_state           jsonb, state jsonb,
    -- At a checkpoint, the tokens of what is stored at that moment: null for a document that failed.
    stored              jsonb
);

CREATE TABLE chaos.configs (
    connector_id   integer NOT NULL,
    config_version bigint NOT NULL,
    type           text NOT NULL,
    config         jsonb NOT NULL,
    PRIMARY KEY (connector_id, config_version)
);

-- open: claimed. pick up: a try has it. end: it is not open any more. verdict: it is in the ledger. gone: and no longer.
CREATE TABLE chaos.run_events (
    seq            bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    txid           bigint NOT NULL DEFAULT txid_current(),
    what           text NOT NULL,
    id             uuid NOT NULL,
    connector_id   integer NOT NULL,
    trigger        text NOT NULL,
    -- Whether it has parameters.
    asked          boolean NOT NULL DEFAULT false,
    slot           timestamptz, slot_last timestamptz, missed_count integer,
    config_version bigint NOT NULL,
    checkpoint_no  bigint NOT NULL DEFAULT 0,
    -- Of the ledger.
    status         text, reason text, said text,
    -- Whether it failed because a message lied about whose it is.
    refused        boolean NOT NULL DEFAULT false,
    -- Of pick up and end: the try, and until when its lease runs; since when it has had the run, and whether it is done.
    try            uuid, worker uuid, lease timestamptz, picked_up timestamptz, drained boolean
);

CREATE TABLE chaos.document_events (
    seq            bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    txid           bigint NOT NULL DEFAULT txid_current(),
    op             text NOT NULL,
    document_id    bigint NOT NULL,
    connector_id   integer NOT NULL,
    source_id      text NOT NULL,
    old_status     text, status text,
    written_by     uuid, written_no bigint,
    try            uuid, first_no bigint,
    version_token  text,
    config_version bigint NOT NULL
);

CREATE TABLE chaos.violations (
    seq          bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind         text NOT NULL,
    connector_id integer,
    message      text NOT NULL
);

-- Where a connector stands by itself, also while a run with parameters goes on.
CREATE FUNCTION chaos.plan(c connectors) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT coalesce(c.kept_plan, jsonb_build_object('status', c.status, 'status_message', c.status_message, 'failure_count', c.failure_count,
        'put_off_since', c.put_off_since, 'next_sync_at', c.next_sync_at, 'due_reason', c.due_reason, 'slot_at', c.slot_at,
        'needs_plan', c.needs_plan, 'condition_met_at', c.condition_met_at, 'upstreams_met_at', c.upstreams_met_at))
        || jsonb_build_object('claimed_at', c.claimed_at, 'over_at', c.over_at, 'claimed_for', c.claimed_for, 'wanted', c.wanted,
        'synced_for', c.synced_for, 'last_sync_at', c.last_sync_at, 'slots_through', c.slots_through, 'planned_through', c.planned_through,
        'trigger_requested_at', c.trigger_requested_at)
$$;

CREATE FUNCTION chaos.on_connector() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO chaos.connector_events (op, connector_id, old_type, type, old_status, status, old_run, run, failures,
        max_retries, old_due_reason, due_reason, old_slot, slot, old_planned, planned, cron, time_zone, dst_gap, dst_overlap, once_per, calendar, calendar_use, condition, met, triggered, claimed_for,
        config_version, reconfigured, answered, asked, owner, old_state, state, stored)
    VALUES (TG_OP, coalesce(NEW.id, OLD.id), OLD.type, NEW.type, OLD.status, NEW.status, OLD.run_id, NEW.run_id,
        NEW.failure_count, NEW.max_retries, coalesce(OLD.due_reason, OLD.kept_plan->>'due_reason'), coalesce(NEW.due_reason, NEW.kept_plan->>'due_reason'),
        coalesce(OLD.slot_at, (OLD.kept_plan->>'slot_at')::timestamptz), coalesce(NEW.slot_at, (NEW.kept_plan->>'slot_at')::timestamptz),
        OLD.planned_through, NEW.planned_through, NEW.schedule_cron, NEW.time_zone, NEW.dst_gap, NEW.dst_overlap,
        NEW.once_per, NEW.calendar, NEW.calendar_use, NEW.condition, OLD.condition_met_at IS NOT NULL, OLD.trigger_requested_at IS NOT NULL, NEW.claimed_for,
        coalesce(NEW.config_version, OLD.config_version),
        TG_OP = 'UPDATE' AND OLD.config_version <> NEW.config_version,
        TG_OP = 'UPDATE' AND OLD.trigger_requested_at IS NOT NULL AND NEW.trigger_requested_at IS NULL,
        coalesce(NEW.kept_plan, OLD.kept_plan) IS NOT NULL, coalesce(NEW.user_id, OLD.user_id),
        CASE WHEN TG_OP = 'UPDATE' AND OLD.state <> NEW.state THEN OLD.state END,
        CASE WHEN TG_OP = 'UPDATE' AND OLD.state <> NEW.state THEN NEW.state END,
        CASE WHEN TG_OP = 'UPDATE' AND OLD.state <> NEW.state AND (NEW.status = 'SYNCING' OR NEW.state ? 'done') THEN (
            SELECT coalesce(jsonb_object_agg(d.source_id, CASE WHEN d.status = 'stored' THEN d.version_token END), '{}')
            FROM documents d
            WHERE d.connector_id = NEW.id AND d.config_version = NEW.config_version AND d.status IN ('stored', 'failed')) END);
    IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND OLD.config_version <> NEW.config_version) THEN
        INSERT INTO chaos.configs VALUES (NEW.id, NEW.config_version, NEW.type, NEW.config);
    END IF;
    IF TG_OP = 'UPDATE' AND coalesce(NEW.kept_plan, OLD.kept_plan) IS NOT NULL AND OLD.config_version = NEW.config_version AND NEW.status <> 'DISABLED'
        AND (OLD.status, OLD.run_id) IS DISTINCT FROM (NEW.status, NEW.run_id) AND chaos.plan(OLD) <> chaos.plan(NEW) THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('plan', NEW.id,
            format('it went from %s to %s for a run with parameters, and stood at %s by itself, then at %s', OLD.status, NEW.status, chaos.plan(OLD), chaos.plan(NEW)));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER chaos_update AFTER UPDATE ON connectors FOR EACH ROW
    WHEN ((OLD.type, OLD.status, OLD.run_id, OLD.failure_count, OLD.due_reason, OLD.slot_at, OLD.next_sync_at,
            OLD.planned_through, OLD.state, OLD.config_version, OLD.schedule_cron, OLD.time_zone, OLD.dst_gap, OLD.dst_overlap,
            OLD.refresh_freq_minutes, OLD.trigger_requested_at)
        IS DISTINCT FROM (NEW.type, NEW.status, NEW.run_id, NEW.failure_count, NEW.due_reason, NEW.slot_at, NEW.next_sync_at,
            NEW.planned_through, NEW.state, NEW.config_version, NEW.schedule_cron, NEW.time_zone, NEW.dst_gap, NEW.dst_overlap,
            NEW.refresh_freq_minutes, NEW.trigger_requested_at))
    EXECUTE FUNCTION chaos.on_connector();
CREATE TRIGGER chaos_write AFTER INSERT OR DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION chaos.on_connector();

CREATE FUNCTION chaos.on_open_run() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r     open_runs := coalesce(NEW, OLD);
    until timestamptz;
    why   text;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.try_id <> NEW.try_id OR OLD.id <> NEW.id OR OLD.connector_id <> NEW.connector_id OR NEW.try_id IS NULL THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lease', NEW.connector_id,
                format('run %s was taken from try %s of worker %s by try %s of worker %s of run %s of connector %s', OLD.id, OLD.try_id,
                    OLD.worker_id, NEW.try_id, NEW.worker_id, NEW.id, NEW.connector_id));
        -- A worker's own heartbeat gives up what the worker does not know of: to one that is not there.
        ELSIF OLD.worker_id <> NEW.worker_id AND NOT (
                EXISTS (SELECT FROM workers w WHERE w.id = OLD.worker_id AND w.xmin = pg_current_xact_id()::xid)
                AND EXISTS (SELECT FROM workers w WHERE w.id = NEW.worker_id AND w.expires_at <= clock_timestamp()))
            OR (OLD.picked_up_at IS NOT NULL AND OLD.worker_id IS NULL AND NEW.worker_id IS NOT NULL) THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lease', NEW.connector_id,
                format('try %s of run %s was taken from worker %s by worker %s', NEW.try_id, NEW.id, OLD.worker_id, NEW.worker_id));
        END IF;
        IF OLD.try_id IS NOT NULL THEN
            RETURN NULL;
        END IF;
    END IF;
    SELECT w.expires_at INTO until FROM workers w WHERE w.id = r.worker_id;
    INSERT INTO chaos.run_events (what, id, connector_id, trigger, asked, slot, config_version, checkpoint_no, try, worker, lease,
        picked_up, drained)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'open' WHEN 'UPDATE' THEN 'pick up' ELSE 'end' END, r.id, r.connector_id, r.trigger,
        r.parameters IS NOT NULL, r.slot, r.config_version, r.checkpoint_no, r.try_id, r.worker_id, until, r.picked_up_at, r.drain_seq IS NOT NULL);
    IF TG_OP = 'DELETE' AND until > clock_timestamp() THEN
        SELECT reason INTO why FROM runs WHERE id = OLD.id;
        IF why IN ('worker lost', 'lost in transit') THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lease', OLD.connector_id,
                format('run %s ended as "%s" %s before its worker''s lease did', OLD.id, why, until - clock_timestamp()));
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_write AFTER INSERT OR DELETE ON open_runs FOR EACH ROW EXECUTE FUNCTION chaos.on_open_run();
CREATE TRIGGER chaos_update AFTER UPDATE ON open_runs FOR EACH ROW
    WHEN (OLD.try_id IS DISTINCT FROM NEW.try_id OR OLD.id <> NEW.id OR OLD.connector_id <> NEW.connector_id
        OR NEW.worker_id IS NOT NULL AND OLD.worker_id IS DISTINCT FROM NEW.worker_id)
    EXECUTE FUNCTION chaos.on_open_run();

CREATE FUNCTION chaos.on_run() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r runs := coalesce(NEW, OLD);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('verdict', OLD.connector_id,
            format('run %s was %s (%s) and was written again: %s (%s), %s stored', OLD.id, OLD.status, OLD.reason,
                NEW.status, NEW.reason, NEW.stored));
        RETURN NULL;
    END IF;
    INSERT INTO chaos.run_events (what, id, connector_id, status, reason, said, trigger, asked, slot, slot_last, missed_count, config_version,
        checkpoint_no, refused)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'verdict' ELSE 'gone' END, r.id, r.connector_id, r.status, r.reason, r.error_message, r.trigger, r.parameters IS NOT NULL, r.slot,
        r.slot_last, r.missed_count, r.config_version, r.checkpoint_no, coalesce(r.error_message LIKE '%it is not of its run%', false));
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_write AFTER INSERT OR UPDATE OR DELETE ON runs FOR EACH ROW EXECUTE FUNCTION chaos.on_run();

-- Whether a connector and its open run say the same, looked at when who moved them commits.
CREATE FUNCTION chaos.on_flight() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r     open_runs;
    c     connectors;
    whose integer;
BEGIN
    IF TG_TABLE_NAME = 'connectors' THEN   -- not by to_jsonb: it would write out a configuration of 64 KiB at each move
        whose := coalesce(NEW.id, OLD.id);
    ELSE
        whose := coalesce(NEW.connector_id, OLD.connector_id);
    END IF;
    SELECT * INTO c FROM connectors WHERE id = whose;
    SELECT * INTO r FROM open_runs WHERE connector_id = whose;
    IF c.run_id IS DISTINCT FROM r.id OR (coalesce(c.status, '') = 'SYNCING') <> (r.try_id IS NOT NULL)
        OR c.type <> r.type OR c.config_version <> r.config_version OR (c.kept_plan IS NOT NULL) <> (r.parameters IS NOT NULL) THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('flight', whose,
            format('it is %s in run %s of type %s at version %s, and open is run %s of type %s at version %s, picked up by try %s',
                c.status, c.run_id, c.type, c.config_version, r.id, r.type, r.config_version, r.try_id));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_flight AFTER UPDATE ON connectors DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.run_id, OLD.status, OLD.type, OLD.config_version) IS DISTINCT FROM (NEW.run_id, NEW.status, NEW.type, NEW.config_version))
    EXECUTE FUNCTION chaos.on_flight();
CREATE CONSTRAINT TRIGGER chaos_flight_delete AFTER DELETE ON connectors DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION chaos.on_flight();
CREATE CONSTRAINT TRIGGER chaos_flight_write AFTER INSERT OR DELETE ON open_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION chaos.on_flight();
CREATE CONSTRAINT TRIGGER chaos_flight_update AFTER UPDATE ON open_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.try_id IS DISTINCT FROM NEW.try_id) EXECUTE FUNCTION chaos.on_flight();

-- A lease is prolonged or runs out; nobody cuts it short, and nobody forgets a worker that holds something.
CREATE FUNCTION chaos.on_worker() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.expires_at > clock_timestamp() OR EXISTS (SELECT FROM open_runs WHERE worker_id = OLD.id) THEN
            INSERT INTO chaos.violations (kind, message) VALUES ('lease',
                format('worker %s was forgotten; its lease ran until %s', OLD.id, OLD.expires_at));
        END IF;
    ELSIF NEW.beats <> OLD.beats + 1 THEN
        INSERT INTO chaos.violations (kind, message) VALUES ('lease',
            format('worker %s went from beat %s to %s', OLD.id, OLD.beats, NEW.beats));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_update AFTER UPDATE OR DELETE ON workers FOR EACH ROW EXECUTE FUNCTION chaos.on_worker();

CREATE FUNCTION chaos.on_document() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    d documents := coalesce(NEW, OLD);
    owner_version bigint;
BEGIN
    INSERT INTO chaos.document_events (op, document_id, connector_id, source_id, old_status, status, written_by, written_no,
        try, first_no, version_token, config_version)
    VALUES (TG_OP, d.id, d.connector_id, d.source_id, OLD.status, NEW.status, d.written_by, d.written_no,
        d.try_id, d.first_no, d.version_token, d.config_version);
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT FROM open_runs r WHERE r.connector_id = OLD.connector_id AND r.try_id = OLD.touched_by) THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', OLD.connector_id,
                format('document %s was swept while try %s was writing it', OLD.source_id, OLD.touched_by));
        END IF;
        SELECT config_version INTO owner_version FROM connectors WHERE id = OLD.connector_id;
        IF OLD.status NOT IN ('deleted', 'partial') AND owner_version = OLD.config_version THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', OLD.connector_id,
                format('document %s was swept while it was %s and of the present configuration', OLD.source_id, OLD.status));
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_update AFTER UPDATE ON documents FOR EACH ROW
    WHEN ((OLD.status, OLD.written_by, OLD.written_no, OLD.try_id, OLD.first_no, OLD.version_token, OLD.config_version)
        IS DISTINCT FROM (NEW.status, NEW.written_by, NEW.written_no, NEW.try_id, NEW.first_no, NEW.version_token, NEW.config_version))
    EXECUTE FUNCTION chaos.on_document();
-- A placeholder that is locked for a part says nothing yet.
CREATE TRIGGER chaos_insert AFTER INSERT ON documents FOR EACH ROW
    WHEN (NEW.written_by IS NOT NULL) EXECUTE FUNCTION chaos.on_document();
CREATE TRIGGER chaos_delete AFTER DELETE ON documents FOR EACH ROW EXECUTE FUNCTION chaos.on_document();

-- The fence, looked at when the writer commits: by then a transaction that ended its run has either committed, and is seen, or
-- has to wait for the writer.
CREATE FUNCTION chaos.on_written() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r    open_runs;
    over runs;
    new_writer boolean := NEW.written_by IS NOT NULL AND (TG_OP = 'INSERT' OR
        (OLD.status, OLD.written_by, OLD.written_no, OLD.try_id, OLD.first_no, OLD.config_version)
            IS DISTINCT FROM (NEW.status, NEW.written_by, NEW.written_no, NEW.try_id, NEW.first_no, NEW.config_version)
        OR OLD.version_token <> NEW.version_token AND NEW.version_token <> '');
BEGIN
    SELECT * INTO r FROM open_runs WHERE connector_id = NEW.connector_id;
    IF new_writer AND r.try_id IS DISTINCT FROM NEW.written_by THEN
        SELECT * INTO over FROM runs WHERE try_id = NEW.written_by LIMIT 1;
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', NEW.connector_id,
            format('document %s was written by try %s of connector %s, which is %s (%s); open is try %s', NEW.source_id,
                NEW.written_by, over.connector_id, coalesce(over.status, 'unknown'), over.reason, r.try_id));
    ELSIF new_writer AND NEW.config_version <> r.config_version THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', NEW.connector_id,
            format('document %s was written as of configuration %s, and the run of try %s has %s', NEW.source_id, NEW.config_version,
                NEW.written_by, r.config_version));
    END IF;
    IF NEW.try_id IS DISTINCT FROM OLD.try_id AND NEW.try_id <> NEW.written_by THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', NEW.connector_id,
            format('document %s names chunks of try %s, and was written by %s', NEW.source_id, NEW.try_id, NEW.written_by));
    END IF;
    IF TG_OP = 'INSERT' AND NEW.written_by IS NULL AND (r.try_id IS DISTINCT FROM NEW.touched_by OR r.config_version <> NEW.config_version) THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', NEW.connector_id,
            format('the place of document %s was taken by try %s as of configuration %s; open is try %s with %s', NEW.source_id,
                NEW.touched_by, NEW.config_version, r.try_id, r.config_version));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_fence_insert AFTER INSERT ON documents DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION chaos.on_written();
-- Emptying a token only asks for the document to be fetched again.
CREATE CONSTRAINT TRIGGER chaos_fence_update AFTER UPDATE ON documents DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.status, OLD.written_by, OLD.written_no, OLD.try_id, OLD.first_no, OLD.config_version)
            IS DISTINCT FROM (NEW.status, NEW.written_by, NEW.written_no, NEW.try_id, NEW.first_no, NEW.config_version)
        OR (OLD.version_token <> NEW.version_token AND NEW.version_token <> ''))
    EXECUTE FUNCTION chaos.on_written();

-- Locks: whom each key was given to, by which epoch.
CREATE TABLE chaos.lock_events (
    seq    bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    key    text NOT NULL,
    epoch  bigint NOT NULL,
    run_id uuid NOT NULL
);
CREATE INDEX ON chaos.lock_events (key, epoch);

CREATE FUNCTION chaos.on_lock() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    last chaos.lock_events;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.run_id <> OLD.run_id AND OLD.expires_at > clock_timestamp() THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lock', OLD.connector_id,
            format('lock %s was taken from run %s by run %s %s before it ended', OLD.key, OLD.run_id, NEW.run_id, OLD.expires_at - clock_timestamp()));
    END IF;
    SELECT * INTO last FROM chaos.lock_events WHERE key = NEW.key ORDER BY epoch DESC LIMIT 1;
    IF NEW.epoch <= last.epoch THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lock', NEW.connector_id,
            format('lock %s was given to run %s in epoch %s, after run %s had it in epoch %s', NEW.key, NEW.run_id, NEW.epoch, last.run_id, last.epoch));
    END IF;
    INSERT INTO chaos.lock_events (key, epoch, run_id) VALUES (NEW.key, NEW.epoch, NEW.run_id);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_insert AFTER INSERT ON resource_locks FOR EACH ROW EXECUTE FUNCTION chaos.on_lock();
CREATE TRIGGER chaos_update AFTER UPDATE ON resource_locks FOR EACH ROW
    WHEN (OLD.run_id <> NEW.run_id OR OLD.epoch <> NEW.epoch) EXECUTE FUNCTION chaos.on_lock();

-- Whether a run has ended by its own worker's word.
CREATE FUNCTION chaos.is_own_end(e runs) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT e.status IN ('completed', 'skipped') OR coalesce(e.reason, '') IN ('released', 'postponed')
$$;

-- Whether a run whose worker is done, by its own word, holds a lock, looked at when that commits. One that was ended from outside keeps its locks until its
-- worker knows it, or their time is over.
CREATE FUNCTION chaos.on_lock_kept() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    kept  resource_locks;
    whose uuid;
BEGIN
    IF TG_TABLE_NAME = 'open_runs' THEN
        whose := OLD.id;
    ELSE
        whose := NEW.run_id;
    END IF;
    SELECT * INTO kept FROM resource_locks l WHERE l.run_id = whose LIMIT 1;
    IF FOUND AND NOT EXISTS (SELECT FROM open_runs r WHERE r.id = whose AND r.try_id IS NOT NULL AND r.drain_seq IS NULL)
        AND (TG_TABLE_NAME = 'resource_locks' OR NOT EXISTS (SELECT FROM runs e WHERE e.id = whose AND NOT chaos.is_own_end(e))) THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lock', kept.connector_id,
            format('run %s holds lock %s, and is not at work', whose, kept.key));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_lock_kept AFTER INSERT ON resource_locks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION chaos.on_lock_kept();
CREATE CONSTRAINT TRIGGER chaos_lock_taken AFTER UPDATE ON resource_locks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.run_id <> NEW.run_id OR OLD.epoch <> NEW.epoch) EXECUTE FUNCTION chaos.on_lock_kept();

-- Whether who ends a run from outside frees its locks.
CREATE FUNCTION chaos.on_lock_freed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.expires_at > clock_timestamp()
        AND EXISTS (SELECT FROM runs e WHERE e.id = OLD.run_id AND e.xmin = pg_current_xact_id()::xid AND NOT chaos.is_own_end(e)) THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lock', OLD.connector_id,
            format('lock %s of run %s was freed %s before it ended, and its worker does not know it', OLD.key, OLD.run_id, OLD.expires_at - clock_timestamp()));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_lock_freed AFTER DELETE ON resource_locks FOR EACH ROW EXECUTE FUNCTION chaos.on_lock_freed();
CREATE CONSTRAINT TRIGGER chaos_lock_ended AFTER DELETE ON open_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.has_locks) EXECUTE FUNCTION chaos.on_lock_kept();
CREATE CONSTRAINT TRIGGER chaos_lock_drained AFTER UPDATE ON open_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.has_locks AND OLD.drain_seq IS NULL AND NEW.drain_seq IS NOT NULL) EXECUTE FUNCTION chaos.on_lock_kept();

-- Places of concurrency keys, taken and left, with the limit at that moment. Who takes one has seen what those before have left: the events stand in that order.
CREATE TABLE chaos.key_events (
    seq  bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    key  text NOT NULL,
    n    integer NOT NULL,
    most integer
);
CREATE FUNCTION chaos.on_place() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO chaos.key_events (key, n) VALUES (OLD.key, -1);
    ELSE
        INSERT INTO chaos.key_events (key, n, most) VALUES (NEW.key, 1, (SELECT l.most FROM concurrency_limits l WHERE l.key = NEW.key));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_place AFTER INSERT OR DELETE ON key_places FOR EACH ROW EXECUTE FUNCTION chaos.on_place();

-- Each event of a verdict: when it was written, and when it was removed, as published or as dropped.
CREATE TABLE chaos.told (
    run_id     uuid NOT NULL,
    no         bigint PRIMARY KEY,
    removed_at timestamptz
);
CREATE INDEX told_run ON chaos.told (run_id);
CREATE FUNCTION chaos.on_verdict_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO chaos.told (run_id, no) VALUES (NEW.run_id, NEW.no);
    ELSE
        UPDATE chaos.told t SET removed_at = clock_timestamp() WHERE t.no = OLD.no;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_write AFTER INSERT OR DELETE ON verdict_events FOR EACH ROW EXECUTE FUNCTION chaos.on_verdict_event();
