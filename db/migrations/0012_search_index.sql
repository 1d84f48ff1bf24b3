-- +goose Up
-- The index outside Postgres that semantic keeps of what documents show; no row where nobody keeps one. Postgres holds all
-- that is in it, so that it can be lost, and filled again: that is a new row.
CREATE TABLE search_index (
    single     boolean PRIMARY KEY DEFAULT true CONSTRAINT search_index_single CHECK (single),
    name       text NOT NULL CONSTRAINT search_index_name_length CHECK (length(name) BETWEEN 1 AND 200),
    -- With the name that of the collection, so that no other database's is written.
    generation uuid NOT NULL DEFAULT gen_random_uuid(),
    -- When a semantic that keeps it was last seen.
    fed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Whether the collection holds what is outdated is reviewed page by page: the next page begins at this point (null: the
    -- first one), and is read at this time or later.
    review_from text CONSTRAINT search_index_review_from_length CHECK (length(review_from) BETWEEN 1 AND 36),
    review_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What the index may not have: one document, all of a connector (no document), or everything (neither). Semantic looks
-- at what documents show when it brings a change there: neither the order matters nor that a change is brought twice.
CREATE TABLE search_index_changes (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document_id  bigint,
    -- Its runs are not complete before it is brought.
    connector_id integer
);
CREATE INDEX search_index_changes_connector ON search_index_changes (connector_id, id);

-- Numbers the turns in which changes are brought there: what Qdrant carries out late must not undo what a later turn has
-- brought. It is not a column: a rollback would set that back.
CREATE SEQUENCE search_index_turns;

-- +goose StatementBegin
CREATE FUNCTION search_index_note() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'connectors' THEN
        INSERT INTO search_index_changes (connector_id) SELECT NEW.id FROM search_index;
    ELSIF (OLD.try_id, OLD.first_no) IS DISTINCT FROM (NEW.try_id, NEW.first_no) THEN
        INSERT INTO search_index_changes (document_id, connector_id)
        SELECT coalesce(NEW.id, OLD.id), coalesce(NEW.connector_id, OLD.connector_id) FROM search_index;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER documents_search_index AFTER INSERT OR DELETE OR UPDATE OF try_id, first_no ON documents
    FOR EACH ROW EXECUTE FUNCTION search_index_note();
-- A point says whose it is.
CREATE TRIGGER connectors_search_index AFTER UPDATE OF user_id, scope, scope_id ON connectors
    FOR EACH ROW WHEN ((OLD.user_id, OLD.scope, OLD.scope_id) IS DISTINCT FROM (NEW.user_id, NEW.scope, NEW.scope_id))
    EXECUTE FUNCTION search_index_note();

-- +goose Down
DROP TRIGGER connectors_search_index ON connectors;
DROP TRIGGER documents_search_index ON documents;
DROP FUNCTION search_index_note();
DROP SEQUENCE search_index_turns;
DROP TABLE search_index_changes;
DROP TABLE search_index;
