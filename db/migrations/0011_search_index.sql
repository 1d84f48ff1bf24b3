-- +goose Up
-- The index outside Postgres that semantic keeps of what documents show; no row where nobody keeps one. Postgres holds all
-- that is in it, so that it can be lost, and filled again.
CREATE TABLE search_index (
    single     boolean PRIMARY KEY DEFAULT true CONSTRAINT search_index_single CHECK (single),
    name       text NOT NULL CONSTRAINT search_index_name_length CHECK (length(name) BETWEEN 1 AND 200),
    -- With the name that of the collection. A new one each time it is filled anew, so that no other database's is written.
    generation uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Whether every document is in it, or among its changes.
    filled     boolean NOT NULL DEFAULT false,
    -- When a semantic that keeps it was last seen.
    fed_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Documents that show other chunks than the index may have, or none. Whoever brings one there looks at what it shows then,
-- so that neither their order matters nor that one is brought twice.
CREATE TABLE search_index_changes (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document_id  bigint NOT NULL,
    -- Its runs are not complete before it is brought.
    connector_id integer NOT NULL
);
CREATE INDEX search_index_changes_connector ON search_index_changes (connector_id, id);

-- Numbers whoever brings changes there, in the order of their turns: a deletion that Qdrant carries out late must not take
-- away what a later turn has brought.
CREATE SEQUENCE search_index_turns;

-- +goose StatementBegin
CREATE FUNCTION search_index_note() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM search_index) THEN
        INSERT INTO search_index_changes (document_id, connector_id)
        VALUES (coalesce(NEW.id, OLD.id), coalesce(NEW.connector_id, OLD.connector_id));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER documents_search_index_insert AFTER INSERT ON documents
    FOR EACH ROW WHEN (NEW.try_id IS NOT NULL) EXECUTE FUNCTION search_index_note();
CREATE TRIGGER documents_search_index_update AFTER UPDATE OF try_id, first_no ON documents
    FOR EACH ROW WHEN ((OLD.try_id, OLD.first_no) IS DISTINCT FROM (NEW.try_id, NEW.first_no))
    EXECUTE FUNCTION search_index_note();
CREATE TRIGGER documents_search_index_delete AFTER DELETE ON documents
    FOR EACH ROW WHEN (OLD.try_id IS NOT NULL) EXECUTE FUNCTION search_index_note();

-- +goose Down
DROP TRIGGER documents_search_index_delete ON documents;
DROP TRIGGER documents_search_index_update ON documents;
DROP TRIGGER documents_search_index_insert ON documents;
DROP FUNCTION search_index_note();
DROP SEQUENCE search_index_turns;
DROP TABLE search_index_changes;
DROP TABLE search_index;
