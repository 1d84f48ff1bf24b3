-- +goose Up
CREATE TABLE connector_types (
    name text PRIMARY KEY
        CONSTRAINT connector_types_name_form CHECK (name ~ '^[a-z][a-z0-9_]*$' AND length(name) <= 63),
    -- Whether its runs store documents, or none and have a result.
    kind text NOT NULL DEFAULT 'source'
        CONSTRAINT connector_types_kind_known CHECK (kind IN ('source', 'job')),
    -- Whether its one connector is the system's: a job without an owner. It stays so: see connector_types_stay.
    system boolean NOT NULL DEFAULT false
        CONSTRAINT connector_types_system_is_job CHECK (NOT system OR kind = 'job'),
    -- Minutes between two syncs of a new connector for which nobody chose; null = as refresh_defaults says.
    default_refresh_minutes integer
        CONSTRAINT connector_types_refresh_range CHECK (default_refresh_minutes BETWEEN 0 AND 5256000),
    -- How many connectors of the type may be PENDING or SYNCING at once; 0 = no cap, null = the service's default.
    max_concurrent_syncs integer
        CONSTRAINT connector_types_cap_range CHECK (max_concurrent_syncs >= 0),
    -- Keys that every connector of the type has besides its own: docs/concurrency.md.
    concurrency_keys text[]
        CONSTRAINT connector_types_keys_form CHECK (coalesce(array_ndims(concurrency_keys) = 1 AND array_lower(concurrency_keys, 1) = 1
            AND cardinality(concurrency_keys) = cardinality(string_to_array(array_to_string(concurrency_keys, ' '), ' '))
            AND array_to_string(concurrency_keys, ' ') ~ '^[A-Za-z0-9][A-Za-z0-9_.:/@-]*( [A-Za-z0-9][A-Za-z0-9_.:/@-]*){0,3}$'
            AND array_to_string(concurrency_keys, ' ') !~ '//[^/ ]*@'
            AND greatest(length(concurrency_keys[1]), length(concurrency_keys[2]), length(concurrency_keys[3]), length(concurrency_keys[4])) <= 128, concurrency_keys IS NULL)),
    -- Whose service its connectors ask: blackout windows name it. Null = nobody has said.
    provider text
        CONSTRAINT connector_types_provider_form CHECK (provider ~ '^[a-z][a-z0-9_-]*$' AND length(provider) <= 63),
    -- Another type with one of these names would keep ours from being added.
    CONSTRAINT connector_types_name_is_the_systems CHECK (system OR name NOT IN
        ('ledger_retention', 'audit_retention', 'lease_sweep', 'orphan_sweep', 'search_index_review', 'lease_report')),
    -- Places of a capped type go round by owner, and the system is none. One job has one run at most.
    CONSTRAINT connector_types_system_has_no_cap CHECK (NOT system OR coalesce(max_concurrent_syncs = 0, false)),
    -- Who may name keys of a type could hold up the system's job by them, which administrators alone write.
    CONSTRAINT connector_types_system_has_no_keys CHECK (NOT system OR concurrency_keys IS NULL)
);

-- A type that is the system's has no connectors of users, and the other way round: it cannot become the other.
-- +goose StatementBegin
CREATE FUNCTION connector_types_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'type %: whether it is the system''s cannot be changed', OLD.name USING ERRCODE = 'check_violation',
        SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = 'connector_types_system_stays', HINT = 'Add a type of another name.';
END $$;
-- +goose StatementEnd
CREATE TRIGGER connector_types_stay BEFORE UPDATE OF system ON connector_types FOR EACH ROW
    WHEN (NEW.system <> OLD.system) EXECUTE FUNCTION connector_types_stay();

-- How many runs that have a key may be in flight at once. A key without a row has no limit. Administrators write them.
CREATE TABLE concurrency_limits (
    key        text PRIMARY KEY
        CONSTRAINT concurrency_limits_key_form CHECK (key ~ '^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$' AND key !~ '//[^/]*@'),
    most       integer NOT NULL
        CONSTRAINT concurrency_limits_most_range CHECK (most BETWEEN 0 AND 10000),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by text
);

-- A limit that comes, changes or goes: the scheduler looks at once at those that wait for its key.
-- +goose StatementBegin
CREATE FUNCTION concurrency_limits_write() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.created_by := coalesce(NEW.created_by, (SELECT a.person FROM moves.actor() a));
        NEW.updated_by := coalesce(NEW.updated_by, NEW.created_by);
    ELSIF TG_OP = 'UPDATE' THEN
        IF NEW.key <> OLD.key THEN
            RAISE EXCEPTION 'limit of key %: its key cannot be changed', OLD.key USING ERRCODE = 'check_violation',
                SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = 'concurrency_limits_key_stays', HINT = 'Add another, and delete this one.';
        END IF;
        NEW.updated_at := clock_timestamp();
        IF NEW.updated_by IS NOT DISTINCT FROM OLD.updated_by THEN
            NEW.updated_by := (SELECT a.person FROM moves.actor() a);
        END IF;
    END IF;
    PERFORM pg_notify('connectors_due', 'key:' || coalesce(NEW.key, OLD.key));
    RETURN coalesce(NEW, OLD);
END $$;
-- +goose StatementEnd
CREATE TRIGGER concurrency_limits_write BEFORE INSERT OR UPDATE OR DELETE ON concurrency_limits
    FOR EACH ROW EXECUTE FUNCTION concurrency_limits_write();

-- Whether the last claim of a capped type left something due because of the cap: the next verdict wakes the scheduler. A table of
-- its own, so that a transaction which ends a run and stays open keeps nobody from adding connectors of the type or from its cap.
CREATE TABLE waiting_types (
    name  text PRIMARY KEY REFERENCES connector_types ON DELETE CASCADE,
    waits boolean NOT NULL
);

INSERT INTO connector_types (name, provider) VALUES ('web', NULL), ('file', NULL), ('onedrive', 'microsoft'), ('google_drive', 'google'), ('teams', 'microsoft');

-- The scheduler's settings SCHEDULER_DEFAULT_REFRESH_*, for those who have none: the command line, the API, and plain SQL.
CREATE TABLE refresh_defaults (
    type    text PRIMARY KEY REFERENCES connector_types ON DELETE CASCADE,
    minutes integer NOT NULL
        CONSTRAINT refresh_defaults_range CHECK (minutes BETWEEN 0 AND 5256000)
);
INSERT INTO refresh_defaults VALUES ('web', 10080), ('onedrive', 10080), ('google_drive', 10080), ('teams', 1440), ('file', 0);

-- The interval of a new connector for which nobody chose, in minutes; 0 = once.
-- +goose StatementBegin
CREATE FUNCTION default_refresh(type_name text) RETURNS integer
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    chosen integer;
BEGIN
    SELECT coalesce(t.default_refresh_minutes, d.minutes) INTO chosen
    FROM connector_types t LEFT JOIN refresh_defaults d ON d.type = t.name WHERE t.name = type_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no connector type %', coalesce(type_name, 'null') USING ERRCODE = 'check_violation',
            CONSTRAINT = 'connectors_type_known', HINT = 'connector_types has those that there are.';
    ELSIF chosen IS NULL THEN
        RAISE EXCEPTION 'type % has no default interval', type_name USING ERRCODE = 'check_violation',
            CONSTRAINT = 'connectors_refresh_chosen', HINT = format('Choose one, or set the default: echomind types add %s --default-refresh 24h.', type_name);
    END IF;
    RETURN chosen;
END $$;
-- +goose StatementEnd

-- What one owner, the user_id of connectors, may have at once: an operator's exceptions, and in row 0 what holds for everybody else.
CREATE TABLE owner_quotas (
    user_id integer PRIMARY KEY
        CONSTRAINT owner_quotas_user_id_range CHECK (user_id >= 0),
    -- How many connectors; 0 = no bound, null = as row 0 says.
    max_connectors integer
        CONSTRAINT owner_quotas_connectors_range CHECK (max_connectors >= 0),
    -- How many connectors of a capped type may be PENDING or SYNCING at once; 0 = all places of the type, null = the service's share.
    max_concurrent_syncs integer
        CONSTRAINT owner_quotas_syncs_range CHECK (max_concurrent_syncs >= 0),
    -- How many documents all connectors of the owner may have stored, and how many bytes of their texts, titles, URLs and links; 0 = no
    -- bound, null = as row 0 says.
    max_documents bigint
        CONSTRAINT owner_quotas_documents_range CHECK (max_documents >= 0),
    max_bytes bigint
        CONSTRAINT owner_quotas_bytes_range CHECK (max_bytes >= 0),
    CONSTRAINT owner_quotas_share_of_one CHECK (user_id > 0 OR max_concurrent_syncs IS NULL)
);

INSERT INTO owner_quotas (user_id, max_connectors, max_documents, max_bytes) VALUES (0, 10000, 10000000, 20000000000);

-- Questions that jobs have asked before they are claimed: docs/conditions.md. Administrators write them.
CREATE TABLE conditions (
    name       text PRIMARY KEY
        CONSTRAINT conditions_name_form CHECK (name ~ '^[a-z][a-z0-9_]*$' AND length(name) <= 63),
    -- One SELECT with one boolean; the job's config is $1, a jsonb.
    query      text NOT NULL
        CONSTRAINT conditions_query_length CHECK (length(query) BETWEEN 1 AND 10000),
    -- Whose jobs (user_id of connectors) may name it; null = everybody's.
    user_ids   integer[]
        CONSTRAINT conditions_users_number CHECK (cardinality(user_ids) BETWEEN 1 AND 1000),
    -- How long it may take for one job, in milliseconds.
    timeout_ms integer NOT NULL DEFAULT 2000
        CONSTRAINT conditions_timeout_range CHECK (timeout_ms BETWEEN 10 AND 2000),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by text
);

-- Each condition is a function here of the role echomind_conditions, which may read what operators grant it and nothing else. A function
-- that runs with its owner's rights cannot leave them: Postgres refuses RESET ROLE, SET SESSION AUTHORIZATION and set_config('role', …)
-- inside. It is STABLE, so that whatever writes is refused before the transaction is asked, which can only read, too.
CREATE SCHEMA condition_queries;
-- +goose StatementBegin
CREATE FUNCTION condition_queries.conditions_write() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        EXECUTE format('DROP FUNCTION condition_queries.%I(jsonb)', OLD.name);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        -- In brackets it is one query with one column, and more than one row is an error.
        EXECUTE format('CREATE FUNCTION condition_queries.%I(jsonb) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER '
            'SET search_path = public, pg_temp AS %L', NEW.name, E'SELECT (\n' || regexp_replace(NEW.query, '[;\s]+$', '') || E'\n)');
        EXECUTE format('REVOKE ALL ON FUNCTION condition_queries.%I(jsonb) FROM PUBLIC', NEW.name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION condition_queries.%I(jsonb) TO echomind_scheduler, echomind_administrator', NEW.name);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER conditions_write AFTER INSERT OR UPDATE OF name, query OR DELETE ON conditions
    FOR EACH ROW EXECUTE FUNCTION condition_queries.conditions_write();

-- Times on which schedules do not run, or run alone: docs/calendars.md. Administrators write them.
CREATE SEQUENCE calendar_versions_made;
CREATE TABLE calendars (
    name       text PRIMARY KEY
        CONSTRAINT calendars_name_form CHECK (name ~ '^[a-z][a-z0-9_-]*$' AND length(name) <= 63),
    -- A new one for each change of its times.
    version    bigint NOT NULL DEFAULT 0,
    time_zone  text NOT NULL
        CONSTRAINT calendars_time_zone_length CHECK (length(time_zone) BETWEEN 1 AND 64),
    entries    jsonb NOT NULL
        CONSTRAINT calendars_entries_list CHECK (jsonb_typeof(entries) = 'array')
        CONSTRAINT calendars_entries_size CHECK (octet_length(entries::text) <= 65536),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by text
);

-- What calendars were before: slots of schedules that were changed since are decided by what stood when they came. The last 20 of each.
CREATE TABLE calendar_versions (
    version     bigint PRIMARY KEY,
    name        text NOT NULL,
    time_zone   text NOT NULL,
    entries     jsonb NOT NULL,
    replaced_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX calendar_versions_name ON calendar_versions (name, version);

-- Calendars that have changed while those that name them are planned anew.
CREATE TABLE calendar_changes (
    name    text PRIMARY KEY,
    version bigint NOT NULL
);

-- The version after another, of a calendar or a blackout window; null = of a new one. It begins with the time, in ms: a replica that takes over without the last commits
-- counts from before. It ends with a number of its own, by which it differs from those of all others, also where the clock has stepped back.
-- +goose StatementBegin
CREATE FUNCTION version_after(old bigint) RETURNS bigint
    LANGUAGE sql AS $$
    SELECT greatest(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, old / 1000000 + 1) * 1000000 + nextval('calendar_versions_made') % 1000000
$$;
-- +goose StatementEnd

-- Gives a calendar its version, keeps the one before, and has the schedules that name it planned anew.
-- +goose StatementBegin
CREATE FUNCTION calendars_write() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM calendar_changes WHERE name = OLD.name;
    ELSIF TG_OP = 'UPDATE' AND NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'calendar %: its name cannot be changed', OLD.name USING ERRCODE = 'check_violation',
            SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = 'calendars_name_stays', HINT = 'Add another, and delete this one.';
    ELSIF TG_OP = 'UPDATE' AND (NEW.time_zone, NEW.entries) IS NOT DISTINCT FROM (OLD.time_zone, OLD.entries) THEN
        NEW.version := OLD.version;
        RETURN NEW;
    ELSE
        IF TG_OP = 'INSERT' THEN
            NEW.created_by := coalesce(NEW.created_by, (SELECT a.person FROM moves.actor() a));
            NEW.updated_by := coalesce(NEW.updated_by, NEW.created_by);
        ELSIF NEW.updated_by IS NOT DISTINCT FROM OLD.updated_by THEN
            NEW.updated_by := (SELECT a.person FROM moves.actor() a);
        END IF;
        -- Those of a name only grow, also where the clock has stepped back since one of that name was deleted.
        NEW.version := version_after(CASE WHEN TG_OP = 'UPDATE' THEN OLD.version ELSE (SELECT max(v.version) FROM calendar_versions v WHERE v.name = NEW.name) END);
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO calendar_versions (version, name, time_zone, entries) VALUES (OLD.version, OLD.name, OLD.time_zone, OLD.entries);
        DELETE FROM calendar_versions v WHERE v.name = OLD.name AND v.version IN
            (SELECT k.version FROM calendar_versions k WHERE k.name = OLD.name ORDER BY k.version DESC OFFSET 20);
    END IF;
    IF TG_OP = 'UPDATE' THEN
        NEW.updated_at := clock_timestamp();
        INSERT INTO calendar_changes (name, version) VALUES (NEW.name, NEW.version) ON CONFLICT (name) DO UPDATE SET version = EXCLUDED.version;
        PERFORM pg_notify('connectors_due', '');
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;
-- +goose StatementEnd
CREATE TRIGGER calendars_write BEFORE INSERT OR UPDATE OR DELETE ON calendars FOR EACH ROW EXECUTE FUNCTION calendars_write();

-- +goose Down
DROP TABLE calendar_changes;
DROP TABLE calendar_versions;
DROP TABLE calendars;
DROP FUNCTION calendars_write();
DROP FUNCTION version_after(bigint);
DROP SEQUENCE calendar_versions_made;
DROP TABLE conditions;
DROP SCHEMA condition_queries CASCADE;
DROP TABLE owner_quotas;
DROP TABLE waiting_types;
DROP FUNCTION default_refresh(text);
DROP TABLE refresh_defaults;
DROP TABLE concurrency_limits;
DROP FUNCTION concurrency_limits_write();
DROP TABLE connector_types;
DROP FUNCTION connector_types_stay();
