-- What the audit reads: every move of connectors, runs and documents, and what is wrong at the moment it happens.
-- One sequence numbers all events, so that they stand in one order.
CREATE SCHEMA chaos;
CREATE SEQUENCE chaos.events;

CREATE TABLE chaos.connector_events (
    seq                 bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    txid                bigint NOT NULL DEFAULT txid_current(),
    op                  text NOT NULL,
    connector_id        integer NOT NULL,
    old_type            text, type text,
    old_status          text, status text,
    old_session         uuid, session uuid,
    old_lease_owner     uuid, lease_owner uuid,
    old_lease           timestamptz,
    failures            integer, max_retries integer,
    old_due_reason      text, due_reason text,
    old_slot            timestamptz, slot timestamptz,
    old_next_sync_at    timestamptz, next_sync_at timestamptz,
    old_planned         timestamptz, planned timestamptz,
    cron                text, time_zone text,
    -- Whether a user changed the schedule, or the configuration.
    rescheduled         boolean NOT NULL, reconfigured boolean NOT NULL,
    -- Whether what a user asked for is not asked for any more.
    answered            boolean NOT NULL,
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

CREATE TABLE chaos.run_events (
    seq            bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    txid           bigint NOT NULL DEFAULT txid_current(),
    op             text NOT NULL,
    id             uuid NOT NULL,
    connector_id   integer NOT NULL,
    old_status     text, status text,
    reason         text,
    trigger        text NOT NULL,
    slot           timestamptz, slot_last timestamptz, missed_count integer,
    config_version bigint NOT NULL
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
    session        uuid, first_no bigint,
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

CREATE FUNCTION chaos.on_connector() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    why text;
BEGIN
    INSERT INTO chaos.connector_events (op, connector_id, old_type, type, old_status, status, old_session, session,
        old_lease_owner, lease_owner, old_lease, failures, max_retries, old_due_reason, due_reason, old_slot, slot,
        old_next_sync_at, next_sync_at, old_planned, planned, cron, time_zone, rescheduled, reconfigured,
        answered, old_state, state, stored)
    VALUES (TG_OP, coalesce(NEW.id, OLD.id), OLD.type, NEW.type, OLD.status, NEW.status,
        OLD.chunking_session, NEW.chunking_session, OLD.lease_owner, NEW.lease_owner, OLD.lease_expires_at,
        NEW.failure_count, NEW.max_retries, OLD.due_reason, NEW.due_reason, OLD.slot_at, NEW.slot_at,
        OLD.next_sync_at, NEW.next_sync_at, OLD.planned_through, NEW.planned_through, NEW.schedule_cron, NEW.time_zone,
        TG_OP = 'UPDATE' AND (OLD.schedule_cron, OLD.time_zone, OLD.refresh_freq_minutes)
            IS DISTINCT FROM (NEW.schedule_cron, NEW.time_zone, NEW.refresh_freq_minutes),
        TG_OP = 'UPDATE' AND OLD.config_version <> NEW.config_version,
        TG_OP = 'UPDATE' AND OLD.trigger_requested_at IS NOT NULL AND NEW.trigger_requested_at IS NULL,
        CASE WHEN TG_OP = 'UPDATE' AND OLD.state <> NEW.state THEN OLD.state END,
        CASE WHEN TG_OP = 'UPDATE' AND OLD.state <> NEW.state THEN NEW.state END,
        CASE WHEN TG_OP = 'UPDATE' AND OLD.state <> NEW.state AND NEW.status = 'SYNCING' THEN (
            SELECT coalesce(jsonb_object_agg(d.source_id, CASE WHEN d.status = 'stored' THEN d.version_token END), '{}')
            FROM public.documents d
            WHERE d.connector_id = NEW.id AND d.config_version = NEW.config_version AND d.status IN ('stored', 'failed')) END);
    IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND OLD.config_version <> NEW.config_version) THEN
        INSERT INTO chaos.configs VALUES (NEW.id, NEW.config_version, NEW.type, NEW.config);
    END IF;
    IF TG_OP <> 'UPDATE' OR OLD.status <> 'SYNCING' THEN
        RETURN NULL;
    END IF;
    IF OLD.chunking_session = NEW.chunking_session THEN
        IF OLD.lease_owner <> NEW.lease_owner THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lease', NEW.id,
                format('session %s was taken from worker %s by worker %s', NEW.chunking_session, OLD.lease_owner, NEW.lease_owner));
        END IF;
        RETURN NULL;
    END IF;
    SELECT reason INTO why FROM public.scheduler_runs WHERE id = OLD.chunking_session;
    IF why IN ('worker lost', 'lost in transit') AND OLD.lease_expires_at > clock_timestamp() THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('lease', NEW.id,
            format('run %s ended as "%s" %s before its worker''s lease did', OLD.chunking_session, why,
                OLD.lease_expires_at - clock_timestamp()));
    END IF;
    RETURN NULL;
END $$;

-- Renewals are no moves: they are the most frequent write, and what they say is in the next move's old lease.
CREATE TRIGGER chaos_update AFTER UPDATE ON connectors FOR EACH ROW
    WHEN ((OLD.type, OLD.status, OLD.chunking_session, OLD.lease_owner, OLD.failure_count, OLD.due_reason, OLD.slot_at,
            OLD.next_sync_at, OLD.planned_through, OLD.state, OLD.config_version, OLD.schedule_cron, OLD.time_zone,
            OLD.refresh_freq_minutes, OLD.trigger_requested_at)
        IS DISTINCT FROM (NEW.type, NEW.status, NEW.chunking_session, NEW.lease_owner, NEW.failure_count, NEW.due_reason,
            NEW.slot_at, NEW.next_sync_at, NEW.planned_through, NEW.state, NEW.config_version, NEW.schedule_cron,
            NEW.time_zone, NEW.refresh_freq_minutes, NEW.trigger_requested_at))
    EXECUTE FUNCTION chaos.on_connector();
CREATE TRIGGER chaos_write AFTER INSERT OR DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION chaos.on_connector();

CREATE FUNCTION chaos.on_run() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r public.scheduler_runs := coalesce(NEW, OLD);
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.status <> 'running' THEN
        IF to_jsonb(OLD) - 'swept_at' IS DISTINCT FROM to_jsonb(NEW) - 'swept_at' THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('verdict', OLD.connector_id,
                format('run %s was %s (%s) and was written again: %s (%s), %s stored', OLD.id, OLD.status, OLD.reason,
                    NEW.status, NEW.reason, NEW.stored));
        END IF;
        IF OLD.status = NEW.status THEN
            RETURN NULL;
        END IF;
    END IF;
    INSERT INTO chaos.run_events (op, id, connector_id, old_status, status, reason, trigger, slot, slot_last, missed_count,
        config_version)
    VALUES (TG_OP, r.id, r.connector_id, OLD.status, NEW.status, r.reason, r.trigger, r.slot, r.slot_last, r.missed_count,
        r.config_version);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_update AFTER UPDATE ON scheduler_runs FOR EACH ROW
    WHEN (OLD.status <> 'running' OR NEW.status <> 'running') EXECUTE FUNCTION chaos.on_run();
CREATE TRIGGER chaos_write AFTER INSERT OR DELETE ON scheduler_runs FOR EACH ROW EXECUTE FUNCTION chaos.on_run();

CREATE FUNCTION chaos.on_document() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    d public.documents := coalesce(NEW, OLD);
    owner_version bigint;
BEGIN
    INSERT INTO chaos.document_events (op, document_id, connector_id, source_id, old_status, status, written_by, written_no,
        session, first_no, version_token, config_version)
    VALUES (TG_OP, d.id, d.connector_id, d.source_id, OLD.status, NEW.status, d.written_by, d.written_no,
        d.session, d.first_no, d.version_token, d.config_version);
    IF TG_OP = 'DELETE' AND OLD.status NOT IN ('deleted', 'partial') THEN
        SELECT config_version INTO owner_version FROM public.connectors WHERE id = OLD.connector_id;
        IF owner_version = OLD.config_version THEN
            INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', OLD.connector_id,
                format('document %s was swept while it was %s and of the present configuration', OLD.source_id, OLD.status));
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_update AFTER UPDATE ON documents FOR EACH ROW
    WHEN ((OLD.status, OLD.written_by, OLD.written_no, OLD.session, OLD.first_no, OLD.version_token)
        IS DISTINCT FROM (NEW.status, NEW.written_by, NEW.written_no, NEW.session, NEW.first_no, NEW.version_token))
    EXECUTE FUNCTION chaos.on_document();
-- A placeholder that is locked for a part says nothing yet.
CREATE TRIGGER chaos_insert AFTER INSERT ON documents FOR EACH ROW
    WHEN (NEW.written_by IS NOT NULL) EXECUTE FUNCTION chaos.on_document();
CREATE TRIGGER chaos_delete AFTER DELETE ON documents FOR EACH ROW EXECUTE FUNCTION chaos.on_document();

-- The fence, looked at when the writer commits: by then whoever ended its run has either committed, and is seen, or
-- has to wait for the writer.
CREATE FUNCTION chaos.on_written() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r public.scheduler_runs;
BEGIN
    SELECT * INTO r FROM public.scheduler_runs WHERE id = NEW.written_by;
    IF r.status IS DISTINCT FROM 'running' OR r.connector_id <> NEW.connector_id THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', NEW.connector_id,
            format('document %s was written by run %s of connector %s, which is %s (%s)', NEW.source_id, NEW.written_by,
                r.connector_id, coalesce(r.status, 'unknown'), r.reason));
    END IF;
    IF NEW.session IS DISTINCT FROM OLD.session AND NEW.session <> NEW.written_by THEN
        INSERT INTO chaos.violations (kind, connector_id, message) VALUES ('writer', NEW.connector_id,
            format('document %s names chunks of session %s, and was written by %s', NEW.source_id, NEW.session, NEW.written_by));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_fence_insert AFTER INSERT ON documents DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.written_by IS NOT NULL) EXECUTE FUNCTION chaos.on_written();
-- Emptying a token only asks for the document to be fetched again.
CREATE CONSTRAINT TRIGGER chaos_fence_update AFTER UPDATE ON documents DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.status, OLD.written_by, OLD.written_no, OLD.session, OLD.first_no)
            IS DISTINCT FROM (NEW.status, NEW.written_by, NEW.written_no, NEW.session, NEW.first_no)
        OR (OLD.version_token <> NEW.version_token AND NEW.version_token <> ''))
    EXECUTE FUNCTION chaos.on_written();
