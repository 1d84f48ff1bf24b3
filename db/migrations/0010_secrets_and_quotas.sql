-- +goose Up
-- What a provider gives a worker in place of a secret of `config`: a rotated refresh token. It is no part of config,
-- because a change of config takes a new config_version and releases the connector. The secret that it replaces is
-- named inside the envelope; one that the user has replaced since makes it worthless.
CREATE TABLE connector_secrets (
    connector_id integer NOT NULL,
    name         text NOT NULL
        CONSTRAINT connector_secrets_name_form CHECK (name ~ '^[a-z][a-z0-9_.]{0,62}$'),
    -- No plaintext can be put here.
    envelope     text NOT NULL
        CONSTRAINT connector_secrets_envelope_form CHECK (envelope ~ '^enc:v1:[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_-]+$')
        CONSTRAINT connector_secrets_envelope_size CHECK (octet_length(envelope) <= 65536),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (connector_id, name)
);

-- Credentials do not outlive their connector, not even until a sweep: a row or two, unlike its documents.
-- +goose StatementBegin
CREATE FUNCTION connector_secrets_forget() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM connector_secrets WHERE connector_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connector_secrets_forget AFTER DELETE ON connectors
    FOR EACH ROW EXECUTE FUNCTION connector_secrets_forget();

-- Keeps a rotated secret, if the run is still the try's: its connector is locked, so that nobody ends the run, or deletes the
-- connector, between the look and the commit.
-- +goose StatementBegin
CREATE FUNCTION moves.replace_secret(run uuid, try uuid, secret text, sealed text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    c connectors := moves.lock_syncing(run, try);
BEGIN
    IF c.id IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO connector_secrets (connector_id, name, envelope) VALUES (c.id, secret, sealed)
    ON CONFLICT (connector_id, name) DO UPDATE SET envelope = EXCLUDED.envelope, updated_at = clock_timestamp();
    RETURN true;
END $$;
-- +goose StatementEnd

-- One token bucket per account of a provider, shared by all replicas. It is worth nothing after a crash: unlogged.
CREATE UNLOGGED TABLE provider_quotas (
    account       text PRIMARY KEY
        CONSTRAINT provider_quotas_account_length CHECK (length(account) BETWEEN 1 AND 200),
    -- Below zero: requests that are allowed already, and wait for their turn.
    tokens        double precision NOT NULL,
    refilled_at   timestamptz NOT NULL,
    -- Nobody asks the provider before; it said so.
    blocked_until timestamptz
) WITH (fillfactor = 50);

-- Takes up to `want` tokens of an account's bucket, by Postgres's clock. Where there is none it takes one of the future,
-- and says how many seconds to wait before it may be used, so that takers come in order; up to `burst` of these wait at
-- once. granted = 0 means: ask again after the wait.
-- +goose StatementBegin
CREATE FUNCTION provider_quota_take(
    account_name text, rate double precision, burst double precision, want integer,
    OUT granted integer, OUT wait_seconds double precision
) LANGUAGE plpgsql AS $$
DECLARE
    q      provider_quotas;
    moment timestamptz;
BEGIN
    INSERT INTO provider_quotas (account, tokens, refilled_at) VALUES (account_name, burst, clock_timestamp())
        ON CONFLICT (account) DO NOTHING;
    SELECT * INTO q FROM provider_quotas WHERE account = account_name FOR UPDATE;
    moment := greatest(clock_timestamp(), q.refilled_at);
    q.tokens := least(burst, q.tokens + extract(epoch FROM moment - q.refilled_at) * rate);
    granted := CASE
        WHEN q.blocked_until > clock_timestamp() THEN 0
        WHEN q.tokens >= 1 THEN least(want, floor(q.tokens))
        WHEN q.tokens >= 1 - burst THEN 1
        ELSE 0 END;
    q.tokens := q.tokens - granted;
    wait_seconds := greatest(0, CASE
        WHEN q.blocked_until > clock_timestamp() THEN extract(epoch FROM q.blocked_until - clock_timestamp())
        WHEN granted = 0 THEN 1 / rate
        WHEN q.tokens < 0 THEN -q.tokens / rate
        ELSE 0 END);
    UPDATE provider_quotas SET tokens = q.tokens, refilled_at = moment WHERE account = account_name;
END $$;
-- +goose StatementEnd

-- How many connectors each owner has: the sum of the owner's rows. Who adds or deletes one makes one row of those that nobody else
-- holds, so that nobody waits for another's transaction; in a transaction of a stricter isolation, which would fail because others
-- have written them, a row of its own.
CREATE TABLE owner_counts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    integer NOT NULL,
    connectors bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX owner_counts_owner ON owner_counts (user_id);

-- Counts an owner's connectors, and refuses those that are too many. What others add at this moment is not seen: together they
-- may go beyond the bound by what they add.
-- +goose StatementBegin
CREATE FUNCTION moves.count_connectors(owner integer, change bigint) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    bound integer := coalesce((SELECT q.max_connectors FROM owner_quotas q WHERE q.user_id = owner),
        (SELECT q.max_connectors FROM owner_quotas q WHERE q.user_id = 0), 0);
    there bigint;
BEGIN
    WITH gone AS (
        DELETE FROM owner_counts n WHERE n.id IN (
            SELECT free.id FROM owner_counts free
            WHERE free.user_id = owner AND current_setting('transaction_isolation') = 'read committed' LIMIT 10 FOR UPDATE SKIP LOCKED)
        RETURNING n.connectors)
    INSERT INTO owner_counts (user_id, connectors) SELECT owner, change + coalesce(sum(g.connectors), 0) FROM gone g;
    IF change > 0 AND bound > 0 THEN
        SELECT sum(n.connectors) INTO there FROM owner_counts n WHERE n.user_id = owner;
        IF there > bound THEN
            RAISE EXCEPTION 'user_id %: would have % connectors, and may have %', owner, there, bound
                USING ERRCODE = 'check_violation', CONSTRAINT = 'connectors_per_owner',
                    HINT = 'Delete some that are not needed, or have an operator raise max_connectors of this user_id in owner_quotas.';
        END IF;
    END IF;
END $$;
-- +goose StatementEnd

-- Once for each statement and owner, so that adding thousands at once does not write a count thousands of times.
-- +goose StatementBegin
CREATE FUNCTION connectors_count() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM owner_counts;
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM moves.count_connectors(a.user_id, count(*)) FROM added a WHERE a.user_id IS NOT NULL GROUP BY a.user_id;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM moves.count_connectors(g.user_id, -count(*)) FROM gone g WHERE g.user_id IS NOT NULL GROUP BY g.user_id;
    ELSE
        PERFORM moves.count_connectors(OLD.user_id, -1);
        PERFORM moves.count_connectors(NEW.user_id, 1);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_count_added AFTER INSERT ON connectors REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION connectors_count();
CREATE TRIGGER connectors_count_gone AFTER DELETE ON connectors REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION connectors_count();
CREATE TRIGGER connectors_count_none AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_count();
CREATE TRIGGER connectors_count_given AFTER UPDATE OF user_id ON connectors
    FOR EACH ROW WHEN (OLD.user_id <> NEW.user_id) EXECUTE FUNCTION connectors_count();

-- What each connector has stored of each configuration: the sum of its rows. Who stores or sweeps writes one of those that nobody else
-- holds, so that nobody waits for another's transaction; in a transaction of a stricter isolation a row of its own.
CREATE TABLE document_counts (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- No foreign key: documents outlive their connector until they are swept.
    connector_id   integer NOT NULL,
    config_version bigint NOT NULL,
    -- Those that are stored, or failed and are still found as they were.
    documents      bigint NOT NULL,
    -- Of rows of any status: their texts, heading paths, titles, URLs and links.
    bytes          bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX document_counts_connector ON document_counts (connector_id, config_version);

-- Counts what a connector has stored more, or less, of a configuration. Where it is less, rows are put together, so that none is left
-- of what is gone.
-- +goose StatementBegin
CREATE FUNCTION moves.count_documents(connector integer, version bigint, more_documents bigint, more_bytes bigint) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    alone boolean := current_setting('transaction_isolation') <> 'read committed';
BEGIN
    IF more_documents = 0 AND more_bytes = 0 THEN
        RETURN;
    END IF;
    IF (more_documents < 0 OR more_bytes < 0) AND NOT alone THEN
        WITH gone AS (
            DELETE FROM document_counts n WHERE n.id IN (
                SELECT free.id FROM document_counts free
                WHERE free.connector_id = connector AND free.config_version = version LIMIT 10 FOR UPDATE SKIP LOCKED)
            RETURNING n.documents, n.bytes)
        SELECT more_documents + coalesce(sum(g.documents), 0), more_bytes + coalesce(sum(g.bytes), 0) INTO more_documents, more_bytes
        FROM gone g;
    ELSIF NOT alone THEN
        UPDATE document_counts n SET documents = n.documents + more_documents, bytes = n.bytes + more_bytes
        WHERE n.id = (SELECT free.id FROM document_counts free
            WHERE free.connector_id = connector AND free.config_version = version LIMIT 1 FOR UPDATE SKIP LOCKED);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF more_documents <> 0 OR more_bytes <> 0 THEN
        INSERT INTO document_counts (connector_id, config_version, documents, bytes)
        VALUES (connector, version, more_documents, more_bytes);
    END IF;
END $$;
-- +goose StatementEnd

-- What a document counts: whether search finds something of it, and its bytes.
-- +goose StatementBegin
CREATE FUNCTION moves.counted(d documents, OUT documents bigint, OUT bytes bigint)
    LANGUAGE sql IMMUTABLE AS $$
    SELECT (d.chunk_count > 0)::integer::bigint,
        d.text_bytes + octet_length(d.title) + octet_length(d.url) + octet_length(array_to_string(d.links, ''))
$$;
-- +goose StatementEnd

-- Once for each statement, connector and configuration.
-- +goose StatementBegin
CREATE FUNCTION documents_count() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM document_counts;
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM moves.count_documents(a.connector_id, a.config_version, sum(n.documents)::bigint, sum(n.bytes)::bigint)
        FROM added a, moves.counted(a) n GROUP BY a.connector_id, a.config_version;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM moves.count_documents(g.connector_id, g.config_version, -sum(n.documents)::bigint, -sum(n.bytes)::bigint)
        FROM gone g, moves.counted(g) n GROUP BY g.connector_id, g.config_version;
    ELSE
        PERFORM moves.count_documents(c.connector_id, c.config_version, sum(c.documents)::bigint, sum(c.bytes)::bigint)
        FROM (SELECT a.connector_id, a.config_version, n.documents, n.bytes FROM added a, moves.counted(a) n
            UNION ALL SELECT g.connector_id, g.config_version, -n.documents, -n.bytes FROM gone g, moves.counted(g) n) c
        GROUP BY c.connector_id, c.config_version;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER documents_count_added AFTER INSERT ON documents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION documents_count();
CREATE TRIGGER documents_count_changed AFTER UPDATE ON documents REFERENCING OLD TABLE AS gone NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION documents_count();
CREATE TRIGGER documents_count_gone AFTER DELETE ON documents REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION documents_count();
CREATE TRIGGER documents_count_none AFTER TRUNCATE ON documents FOR EACH STATEMENT EXECUTE FUNCTION documents_count();

-- What an owner's connectors have stored, as far as it is committed, and how much more they may; null = no bound. Documents of an
-- earlier configuration are swept when a run has listed the new one whole: until then they have as much room beside the others.
-- +goose StatementBegin
CREATE FUNCTION moves.owner_has_room(owner integer, OUT documents bigint, OUT bytes bigint, OUT max_documents bigint, OUT max_bytes bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT least(q.documents - n.documents, 2 * q.documents - n.all_documents), least(q.bytes - n.bytes, 2 * q.bytes - n.all_bytes),
        q.documents, q.bytes
    FROM (SELECT least(nullif(coalesce(o.max_documents, a.max_documents), 0), 1::bigint << 61) AS documents,
            least(nullif(coalesce(o.max_bytes, a.max_bytes), 0), 1::bigint << 61) AS bytes
        FROM (SELECT 1) one LEFT JOIN owner_quotas o ON o.user_id = owner LEFT JOIN owner_quotas a ON a.user_id = 0) q,
        (SELECT coalesce(sum(d.documents), 0)::bigint AS all_documents, coalesce(sum(d.bytes), 0)::bigint AS all_bytes,
            coalesce(sum(d.documents) FILTER (WHERE d.config_version >= c.config_version), 0)::bigint AS documents,
            coalesce(sum(d.bytes) FILTER (WHERE d.config_version >= c.config_version), 0)::bigint AS bytes
        FROM connectors c JOIN document_counts d ON d.connector_id = c.id
        WHERE c.scope IN ('user', 'group', 'org') AND c.user_id = owner) n
$$;
-- +goose StatementEnd

-- The owner whom the last claim of a capped type served, or looked at, last: the next one goes on behind.
CREATE TABLE owner_turns (
    type   text PRIMARY KEY,
    served integer NOT NULL
) WITH (fillfactor = 50);

-- How many more connectors of a capped type an owner may have in flight. The type has `cap` places; `share` is the default quota.
-- This and what follows is called by lock_due alone, in PL/pgSQL, which keeps its plans: to make them costs more than they do.
-- +goose StatementBegin
CREATE FUNCTION moves.owner_room(of_type text, owner integer, cap integer, share integer) RETURNS integer
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT m.most - (SELECT count(*)::integer FROM (
                SELECT FROM open_runs r WHERE r.type = of_type AND r.user_id = owner LIMIT m.most) held)
        FROM (SELECT least(cap, coalesce(nullif(coalesce((SELECT q.max_concurrent_syncs FROM owner_quotas q WHERE q.user_id = owner),
            share), 0), cap)) AS most OFFSET 0) m);
END $$;
-- +goose StatementEnd

-- Whether nobody else has a connector of the type planned, due or in flight.
-- +goose StatementBegin
CREATE FUNCTION moves.is_alone(of_type text, owner integer) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT coalesce(bool_and(o.user_id = owner), true) FROM (
            (SELECT c.user_id FROM connectors c WHERE c.type = of_type AND c.due_at IS NOT NULL ORDER BY c.user_id LIMIT 1)
            UNION ALL
            (SELECT c.user_id FROM connectors c WHERE c.type = of_type AND c.due_at IS NOT NULL ORDER BY c.user_id DESC LIMIT 1)
            UNION ALL
            (SELECT r.user_id FROM open_runs r WHERE r.type = of_type ORDER BY r.user_id LIMIT 1)
            UNION ALL
            (SELECT r.user_id FROM open_runs r WHERE r.type = of_type ORDER BY r.user_id DESC LIMIT 1)) o);
END $$;
-- +goose StatementEnd

-- Whose turn it is, from `turn` on: up to `most` owners who have something due, with their room, and the last one that was looked at.
-- It hops from owner to owner, also over those who have nothing due: 500 at most.
-- +goose StatementBegin
CREATE FUNCTION moves.owners_in_turn(
    due_type text, cap integer, share integer, moment timestamptz, refused integer[], turn integer, most integer,
    OUT owners integer[], OUT rooms integer[], OUT looked_at integer
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    WITH RECURSIVE hops AS (
        SELECT turn AS user_id, NULL::timestamptz AS due, 0 AS hop, 0 AS lap
        UNION ALL
        SELECT coalesce(next.user_id, 0), next.due_at, h.hop + 1, h.lap + CASE WHEN next.user_id IS NULL THEN 1 ELSE 0 END
        FROM hops h LEFT JOIN LATERAL (
            SELECT c.user_id, c.due_at FROM connectors c
            WHERE c.type = due_type AND c.due_at IS NOT NULL AND c.user_id > h.user_id
                AND (refused IS NULL OR c.id <> ALL (refused))
            ORDER BY c.user_id, c.due_at LIMIT 1) next ON true
        WHERE h.hop < 500 AND (h.lap = 0 OR (h.lap = 1 AND h.user_id < turn)))
    SELECT array_agg(f.user_id ORDER BY f.hop) FILTER (WHERE f.room > 0), array_agg(f.room ORDER BY f.hop) FILTER (WHERE f.room > 0),
        (array_agg(f.user_id ORDER BY f.hop DESC))[1]
    INTO owners, rooms, looked_at
    FROM (
        SELECT h.user_id, h.hop, r.room FROM hops h
        CROSS JOIN LATERAL (
            SELECT CASE WHEN h.due <= moment THEN moves.owner_room(due_type, h.user_id, cap, share) ELSE 0 END AS room OFFSET 0) r
        WHERE h.hop > 0 AND (h.lap = 0 OR h.user_id <= turn) AND (r.room > 0 OR h.hop = 500)
        LIMIT most) f;
END $$;
-- +goose StatementEnd

-- lock_due where the type has a cap, and `free` places: they go from owner to owner, the longest due of each first, and come in that
-- order. Where more is due than has a place, those who are near are not all: so the turn goes on from the owner who was served last.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_by_owner(
    due_type text, cap integer, free integer, share integer, moment timestamptz, refused integer[]
) RETURNS SETOF connectors
    LANGUAGE plpgsql AS $$
DECLARE
    more      CONSTANT integer := 16;
    turn      integer := coalesce((SELECT t.served FROM owner_turns t WHERE t.type = due_type), 0);
    seen      integer;
    near      integer[];
    owners    integer[] := '{}';
    rooms     integer[] := '{}';
    ids       integer[];
    looked_at integer; reached integer; served integer;
BEGIN
    share := greatest(1, cap::bigint * share / 100);
    SELECT count(*), array_agg(DISTINCT d.user_id) INTO seen, near FROM (
        SELECT c.user_id FROM connectors c
        WHERE c.type = due_type AND c.due_at <= moment AND (refused IS NULL OR c.id <> ALL (refused))
        ORDER BY c.due_at LIMIT free + more) d;
    IF cardinality(near) = 1 AND moves.is_alone(due_type, near[1]) THEN
        share := cap;
    ELSIF seen = free + more THEN
        SELECT coalesce(o.owners, '{}'), coalesce(o.rooms, '{}'), o.looked_at INTO owners, rooms, looked_at
            FROM moves.owners_in_turn(due_type, cap, share, moment, refused, turn, free + 2) o;
        IF cardinality(owners) < free THEN
            reached := looked_at;
            near := near || ARRAY(SELECT c.user_id FROM connectors c
                WHERE c.type = due_type AND c.due_at <= moment AND (refused IS NULL OR c.id <> ALL (refused))
                ORDER BY c.due_at DESC LIMIT more);
        END IF;
    END IF;
    IF cardinality(owners) < free THEN
        SELECT owners || array_agg(n.user_id ORDER BY n.user_id <= turn, n.user_id),
            rooms || array_agg(n.room ORDER BY n.user_id <= turn, n.user_id)
        INTO owners, rooms
        FROM (
            SELECT d.user_id, moves.owner_room(due_type, d.user_id, cap, share) AS room
            FROM (SELECT DISTINCT unnest(near) AS user_id) d WHERE d.user_id <> ALL (owners) OFFSET 0) n
        WHERE n.room > 0;
    END IF;
    SELECT array_agg(l.id), (array_agg(l.user_id))[count(*)] INTO ids, served FROM (
        SELECT c.id, c.user_id
        FROM unnest(owners, rooms) o(user_id, room)
        CROSS JOIN LATERAL (
            SELECT d.id, d.user_id FROM connectors d
            WHERE d.type = due_type AND d.user_id >= o.user_id AND (d.user_id, d.due_at) <= (o.user_id, moment)
                AND d.due_at IS NOT NULL AND (refused IS NULL OR d.id <> ALL (refused))
            ORDER BY d.user_id, d.due_at
            LIMIT least(o.room, CASE WHEN seen <= free THEN free ELSE (free - 1) / greatest(1, least(cardinality(owners), free)) + 1 END)
            FOR UPDATE SKIP LOCKED) c
        LIMIT free) l;
    IF seen > free THEN
        INSERT INTO owner_turns AS t (type, served) VALUES (due_type, coalesce(reached, served, looked_at, turn))
            ON CONFLICT (type) DO UPDATE SET served = EXCLUDED.served WHERE t.served <> EXCLUDED.served;
    END IF;
    -- Places stay free, and something is due whose owner has enough, or that somebody holds.
    IF coalesce(cardinality(ids), 0) < least(free, seen) THEN
        PERFORM moves.note_waiting(due_type, true);
    END IF;
    RETURN QUERY SELECT c.* FROM unnest(ids) WITH ORDINALITY l(id, place), LATERAL (SELECT * FROM connectors k WHERE k.id = l.id OFFSET 0) c
        ORDER BY l.place;
END $$;
-- +goose StatementEnd

-- Locks of scarce things: acquire_lock, renew_lock, free_locks, release_lock. A run whose documents are still to be stored holds none. A call that asks
-- for one takes the run's row first, then the key's turn, and waits for no lock's row: a call that ends runs holds several.

-- +goose Down
DROP FUNCTION moves.lock_by_owner(text, integer, integer, integer, timestamptz, integer[]);
DROP FUNCTION moves.owners_in_turn(text, integer, integer, timestamptz, integer[], integer, integer);
DROP FUNCTION moves.is_alone(text, integer);
DROP FUNCTION moves.owner_room(text, integer, integer, integer);
DROP TABLE owner_turns;
DROP TRIGGER documents_count_none ON documents;
DROP TRIGGER documents_count_gone ON documents;
DROP TRIGGER documents_count_changed ON documents;
DROP TRIGGER documents_count_added ON documents;
DROP FUNCTION documents_count();
DROP FUNCTION moves.count_documents(integer, bigint, bigint, bigint);
DROP FUNCTION moves.counted(documents);
DROP FUNCTION moves.owner_has_room(integer);
DROP TRIGGER connectors_count_given ON connectors;
DROP TRIGGER connectors_count_none ON connectors;
DROP TRIGGER connectors_count_gone ON connectors;
DROP TRIGGER connectors_count_added ON connectors;
DROP FUNCTION connectors_count();
DROP FUNCTION moves.count_connectors(integer, bigint);
DROP TABLE document_counts;
DROP TABLE owner_counts;
DROP FUNCTION provider_quota_take(text, double precision, double precision, integer);
DROP TABLE provider_quotas;
DROP TRIGGER connector_secrets_forget ON connectors;
DROP FUNCTION connector_secrets_forget();
DROP FUNCTION moves.replace_secret(uuid, uuid, text, text);
DROP TABLE connector_secrets;
