-- +goose Up
-- expand
-- A connector that is handed to somebody else is found by them within some turns of the search index, however many changes of others wait.

-- Whether the change is one of a connector that was handed over, or of a document that was queued for that.
ALTER TABLE search_index_changes ADD COLUMN is_handed_over boolean NOT NULL DEFAULT false;
-- HandedOver, and SearchIndexChanges of these.
CREATE INDEX search_index_changes_handed_over ON search_index_changes (connector_id, id) WHERE is_handed_over;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION search_index_note() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'connectors' THEN
        INSERT INTO search_index_changes (connector_id, is_handed_over) SELECT NEW.id, true FROM search_index;
    ELSIF (OLD.try_id, OLD.first_no) IS DISTINCT FROM (NEW.try_id, NEW.first_no) THEN
        INSERT INTO search_index_changes (document_id, connector_id)
        SELECT coalesce(NEW.id, OLD.id), coalesce(NEW.connector_id, OLD.connector_id) FROM search_index;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION search_index_note() RETURNS trigger
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
DROP INDEX search_index_changes_handed_over;
ALTER TABLE search_index_changes DROP COLUMN is_handed_over;
