-- +goose Up
-- expand
-- Files that people upload: connectors of type file whose url is "upload:". What is in them lies in a bucket (UPLOAD_URL), as objects that are written once; which
-- objects are files, and whose, is said here, so that a file is there, and asked for by a sync, in one transaction. See docs/adr/0045.

-- Where the files of a connector are kept, and how much that is. A later connector of the same number has another place.
CREATE TABLE upload_places (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Null: its connector is deleted, and its files are to go.
    connector_id integer
        CONSTRAINT upload_places_connector UNIQUE,
    -- Whose connector it is, or was.
    user_id      integer,
    files        integer NOT NULL DEFAULT 0,
    bytes        bigint NOT NULL DEFAULT 0,
    -- Of files that were replaced or deleted, and that the bucket still has.
    left_bytes   bigint NOT NULL DEFAULT 0
);
-- keep_upload: what an owner has.
CREATE INDEX upload_places_owner ON upload_places (user_id) WHERE connector_id IS NOT NULL;
-- sweep_uploads: what has nobody.
CREATE INDEX upload_places_gone ON upload_places (id) WHERE connector_id IS NULL;

CREATE TABLE uploaded_files (
    place       bigint NOT NULL,
    name        text COLLATE "C" NOT NULL
        CONSTRAINT uploaded_files_name_form CHECK (octet_length(name) BETWEEN 1 AND 255 AND name !~ '[[:cntrl:]/\\]' AND name !~ '^\.'),
    -- Its content. Another one for each version.
    object      uuid NOT NULL,
    bytes       bigint NOT NULL
        CONSTRAINT uploaded_files_bytes_range CHECK (bytes > 0),
    sha256      bytea NOT NULL
        CONSTRAINT uploaded_files_sha256_length CHECK (octet_length(sha256) = 32),
    uploaded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    uploaded_by text NOT NULL,
    PRIMARY KEY (place, name)
);

-- Objects that no file has: those that are being written, and those of files that were replaced or deleted. They are removed from the bucket then.
CREATE TABLE dropped_objects (
    object  uuid PRIMARY KEY,
    drop_at timestamptz NOT NULL,
    place   bigint NOT NULL,
    -- What it counts for in left_bytes: nothing while it is being written.
    bytes   bigint NOT NULL DEFAULT 0
);
-- due_objects: the next.
CREATE INDEX dropped_objects_next ON dropped_objects (drop_at);
-- sweep_uploads: what was replaced or deleted of a connector that is gone.
CREATE INDEX dropped_objects_left ON dropped_objects (place) WHERE bytes > 0;

-- Writes down what people upload, replace and delete; not what goes with its connector.
-- +goose StatementBegin
CREATE FUNCTION uploaded_files_audit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    of     connectors;
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
BEGIN
    SELECT c.* INTO of FROM upload_places p JOIN connectors c ON c.id = p.connector_id WHERE p.id = (coalesce(after, before) ->> 'place')::bigint;
    IF of.id IS NOT NULL THEN
        PERFORM moves.note_change(CASE TG_OP WHEN 'DELETE' THEN 'files.delete' ELSE 'files.upload' END, of.id || '/' || (coalesce(after, before) ->> 'name'),
            before - '{place,name,object,uploaded_at,uploaded_by}'::text[], after - '{place,name,object,uploaded_at,uploaded_by}'::text[], of);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER uploaded_files_audit AFTER INSERT OR UPDATE OR DELETE ON uploaded_files FOR EACH ROW EXECUTE FUNCTION uploaded_files_audit();

-- A connector that goes leaves its place to sweep_uploads, however many files there are. One that is given away takes it along.
-- +goose StatementBegin
CREATE FUNCTION connectors_leave_uploads() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE upload_places SET connector_id = NULL WHERE connector_id IS NOT NULL;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE upload_places p SET connector_id = NULL WHERE p.connector_id = OLD.id;
    ELSE
        UPDATE upload_places p SET user_id = NEW.user_id WHERE p.connector_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_gone_from_uploads AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_leave_uploads();
CREATE TRIGGER connectors_none_of_uploads AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_leave_uploads();
CREATE TRIGGER connectors_given_with_uploads AFTER UPDATE OF user_id ON connectors FOR EACH ROW
    WHEN (NEW.user_id IS DISTINCT FROM OLD.user_id) EXECUTE FUNCTION connectors_leave_uploads();

-- The files of connectors that somebody sees, and what has become of each as a document that they see: stored, failed, or waiting for a sync.
CREATE VIEW api.uploaded_files AS
SELECT p.connector_id, f.name, f.bytes, f.sha256, f.uploaded_at, f.uploaded_by,
    CASE WHEN d.status = 'stored' AND right(d.version_token, 36) = f.object::text THEN 'stored' WHEN d.status = 'failed' AND d.updated_at > f.uploaded_at THEN 'failed' ELSE 'waiting' END AS document,
    CASE WHEN d.status = 'failed' AND d.updated_at > f.uploaded_at THEN d.error END AS error
FROM upload_places p
JOIN uploaded_files f ON f.place = p.id
LEFT JOIN documents d ON d.connector_id = p.connector_id AND d.source_id = f.name COLLATE "default"   -- as its key has it: by another collation the key is of no use
    AND d.config_version >= (SELECT s.version FROM api.seen_since(p.connector_id) s)
WHERE api.sees_connector(p.connector_id);

-- Begins to write an object for a connector that the viewer may change: whatever comes of it, it is removed after a time, unless it is kept until then. No row: it is not for
-- who asks.
-- +goose StatementBegin
CREATE FUNCTION api.begin_upload(connector integer, within interval, OUT object uuid, OUT files integer, OUT bytes bigint, OUT owner_bytes bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    place upload_places;
BEGIN
    INSERT INTO upload_places (connector_id, user_id) SELECT k.id, k.user_id FROM api.changeable k WHERE k.id = connector ON CONFLICT (connector_id) DO NOTHING;
    SELECT p.* INTO place FROM upload_places p WHERE p.connector_id = connector AND EXISTS (SELECT FROM api.changeable k WHERE k.id = connector);
    IF place.id IS NOT NULL THEN
        object := gen_random_uuid();
        INSERT INTO dropped_objects VALUES (object, clock_timestamp() + within, place.id);
        files := place.files;
        bytes := place.bytes;
        owner_bytes := (SELECT sum(p.bytes) FROM upload_places p WHERE p.user_id = place.user_id AND p.connector_id IS NOT NULL);
    END IF;
END $$;
-- +goose StatementEnd

-- Makes an object that was written a file of a connector that the viewer may change, in place of one of the same name. most_files, most_bytes and most_owner_bytes bound what is there
-- then; others of the same owner that come at the same moment are not seen.
-- +goose StatementBegin
CREATE FUNCTION api.keep_upload(connector integer, kept uuid, file text, size bigint, content_sha256 bytea, most_files integer, most_bytes bigint, most_owner_bytes bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    place upload_places;
    was   uploaded_files;
    owned bigint;
    gone  bigint;
BEGIN
    SELECT p.* INTO place FROM upload_places p WHERE p.connector_id = connector AND EXISTS (SELECT FROM api.changeable k WHERE k.id = connector) FOR UPDATE;
    IF place.id IS NULL THEN
        RETURN false;
    END IF;
    DELETE FROM dropped_objects d WHERE d.object = kept AND d.drop_at > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the upload of % took too long', file USING ERRCODE = 'check_violation', CONSTRAINT = 'uploaded_files_in_time';
    END IF;
    SELECT f.* INTO was FROM uploaded_files f WHERE f.place = place.id AND f.name = file;
    IF was.object IS NOT NULL THEN   -- a sync may be reading it
        INSERT INTO dropped_objects VALUES (was.object, clock_timestamp() + interval '1 hour', place.id, was.bytes);
    END IF;
    INSERT INTO uploaded_files (place, name, object, bytes, sha256, uploaded_by)
    VALUES (place.id, file, kept, size, content_sha256, (SELECT a.person FROM moves.actor() a))
    ON CONFLICT ON CONSTRAINT uploaded_files_pkey DO UPDATE SET object = EXCLUDED.object, bytes = EXCLUDED.bytes, sha256 = EXCLUDED.sha256,
        uploaded_at = EXCLUDED.uploaded_at, uploaded_by = EXCLUDED.uploaded_by;
    UPDATE upload_places p SET files = p.files + (was.object IS NULL)::integer, bytes = p.bytes + size - coalesce(was.bytes, 0),
        left_bytes = p.left_bytes + coalesce(was.bytes, 0) WHERE p.id = place.id RETURNING p.* INTO place;
    SELECT sum(p.bytes), sum(p.left_bytes) INTO owned, gone FROM upload_places p WHERE p.user_id = place.user_id AND p.connector_id IS NOT NULL;
    IF place.files > most_files THEN
        RAISE EXCEPTION 'the connector would have % files, and may have %', place.files, most_files USING ERRCODE = 'check_violation', CONSTRAINT = 'upload_places_files';
    ELSIF place.bytes > most_bytes THEN
        RAISE EXCEPTION 'the connector would have files of % bytes, and may have %', place.bytes, most_bytes USING ERRCODE = 'check_violation', CONSTRAINT = 'upload_places_bytes';
    ELSIF place.left_bytes > most_bytes THEN
        RAISE EXCEPTION 'files of % bytes were replaced or deleted of late, and are kept for an hour', place.left_bytes USING ERRCODE = 'check_violation', CONSTRAINT = 'upload_places_left';
    ELSIF gone > most_owner_bytes THEN
        RAISE EXCEPTION 'files of % bytes of its owner''s were replaced or deleted of late, and are kept for an hour', gone USING ERRCODE = 'check_violation', CONSTRAINT = 'upload_places_left';
    ELSIF owned > most_owner_bytes THEN
        RAISE EXCEPTION 'its owner would have files of % bytes, and may have %', owned, most_owner_bytes USING ERRCODE = 'check_violation', CONSTRAINT = 'upload_places_owner_bytes';
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- Deletes a file of a connector that the viewer may change. False: there is none.
-- +goose StatementBegin
CREATE FUNCTION api.delete_upload(connector integer, file text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone uploaded_files;
BEGIN
    PERFORM FROM upload_places p WHERE p.connector_id = connector FOR UPDATE;
    DELETE FROM uploaded_files f USING upload_places p
    WHERE p.connector_id = connector AND f.place = p.id AND f.name = file AND EXISTS (SELECT FROM api.changeable k WHERE k.id = connector) RETURNING f.* INTO gone;
    IF gone.object IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO dropped_objects VALUES (gone.object, clock_timestamp() + interval '1 hour', gone.place, gone.bytes);   -- a sync may be reading it
    UPDATE upload_places p SET files = p.files - 1, bytes = p.bytes - gone.bytes, left_bytes = p.left_bytes + gone.bytes WHERE p.id = gone.place;
    RETURN true;
END $$;
-- +goose StatementEnd

-- Has the files of deleted connectors removed, up to so many. True: there are more.
-- +goose StatementBegin
CREATE FUNCTION api.sweep_uploads(most integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone bigint := (SELECT p.id FROM upload_places p WHERE p.connector_id IS NULL ORDER BY p.id LIMIT 1 FOR UPDATE SKIP LOCKED);
    n    bigint;
    early bigint;
BEGIN
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    WITH swept AS (DELETE FROM uploaded_files f USING (SELECT o.place, o.name FROM uploaded_files o WHERE o.place = gone ORDER BY o.name LIMIT most) s
        WHERE f.place = s.place AND f.name = s.name RETURNING f.object)
    INSERT INTO dropped_objects SELECT s.object, clock_timestamp(), gone FROM swept s;
    GET DIAGNOSTICS n = ROW_COUNT;
    -- No sync reads what was replaced or deleted before: nobody fills a disk by connectors that are added and deleted. What is being written (bytes = 0) keeps its time.
    UPDATE dropped_objects d SET drop_at = clock_timestamp()
    FROM (SELECT o.object FROM dropped_objects o WHERE o.place = gone AND o.bytes > 0 AND o.drop_at > clock_timestamp() LIMIT most FOR UPDATE) e WHERE d.object = e.object;
    GET DIAGNOSTICS early = ROW_COUNT;
    IF n < most AND early < most THEN
        DELETE FROM upload_places p WHERE p.id = gone;
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- Gives up objects that were begun, and says which: those that are files stay.
-- +goose StatementBegin
CREATE FUNCTION api.abandon_objects(begun uuid[]) RETURNS SETOF uuid
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE dropped_objects d SET drop_at = clock_timestamp() WHERE d.object = ANY (begun) RETURNING d.object
$$;
-- +goose StatementEnd

-- The objects that are to be removed from the bucket, the longest due first.
-- +goose StatementBegin
CREATE FUNCTION api.due_objects(most integer) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT d.object FROM dropped_objects d WHERE d.drop_at <= (SELECT clock_timestamp()) ORDER BY d.drop_at LIMIT least(most, 1000)
$$;
-- +goose StatementEnd

-- Forgets objects that are in the bucket no more. Of those that are not due none is forgotten.
-- +goose StatementBegin
CREATE FUNCTION api.forget_objects(removed uuid[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH gone AS (DELETE FROM dropped_objects d WHERE d.object = ANY (removed) AND d.drop_at <= (SELECT clock_timestamp()) RETURNING d.place, d.bytes)
    UPDATE upload_places p SET left_bytes = p.left_bytes - g.bytes FROM (SELECT o.place, sum(o.bytes) AS bytes FROM gone o GROUP BY o.place) g WHERE p.id = g.place AND g.bytes > 0
$$;
-- +goose StatementEnd

-- The files of a try's connector, by name, behind one of them, and what their content must be.
-- +goose StatementBegin
CREATE FUNCTION moves.uploaded(run uuid, try uuid, after text DEFAULT '', page integer DEFAULT 1000) RETURNS TABLE (name text, object uuid, bytes bigint, sha256 bytea)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r open_runs := moves.of_try(run, try, 'uploaded');
BEGIN
    IF page IS NULL OR page NOT BETWEEN 1 AND 10000 OR after IS NULL THEN
        RAISE EXCEPTION 'uploaded: page is %, must be from 1 to 10000; after is %, must be a name or empty',
            coalesce(page::text, 'null'), coalesce(after, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY SELECT f.name::text, f.object, f.bytes, f.sha256 FROM uploaded_files f
        WHERE f.place = (SELECT p.id FROM upload_places p WHERE p.connector_id = r.connector_id) AND f.name > after ORDER BY f.name LIMIT page;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION uploaded_files_audit(), connectors_leave_uploads(), moves.uploaded(uuid, uuid, text, integer), api.begin_upload(integer, interval),
    api.keep_upload(integer, uuid, text, bigint, bytea, integer, bigint, bigint), api.delete_upload(integer, text), api.sweep_uploads(integer), api.due_objects(integer),
    api.abandon_objects(uuid[]), api.forget_objects(uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.uploaded(uuid, uuid, text, integer) TO echomind_worker;
GRANT EXECUTE ON FUNCTION api.begin_upload(integer, interval), api.keep_upload(integer, uuid, text, bigint, bytea, integer, bigint, bigint), api.delete_upload(integer, text),
    api.sweep_uploads(integer), api.due_objects(integer), api.abandon_objects(uuid[]), api.forget_objects(uuid[]) TO echomind_api;
GRANT SELECT ON api.uploaded_files TO echomind_api;

-- +goose Down
DROP FUNCTION moves.uploaded(uuid, uuid, text, integer);
DROP FUNCTION api.forget_objects(uuid[]);
DROP FUNCTION api.due_objects(integer);
DROP FUNCTION api.abandon_objects(uuid[]);
DROP FUNCTION api.sweep_uploads(integer);
DROP FUNCTION api.delete_upload(integer, text);
DROP FUNCTION api.keep_upload(integer, uuid, text, bigint, bytea, integer, bigint, bigint);
DROP FUNCTION api.begin_upload(integer, interval);
DROP VIEW api.uploaded_files;
DROP TRIGGER connectors_given_with_uploads ON connectors;
DROP TRIGGER connectors_none_of_uploads ON connectors;
DROP TRIGGER connectors_gone_from_uploads ON connectors;
DROP FUNCTION connectors_leave_uploads();
DROP TABLE dropped_objects;
DROP TABLE uploaded_files;
DROP FUNCTION uploaded_files_audit();
DROP TABLE upload_places;
