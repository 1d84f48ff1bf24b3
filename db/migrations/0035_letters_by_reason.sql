-- +goose Up
-- expand
-- Dead letters are replayed and removed by reason: many in one request.

-- Has what up to 1,000 dead letters of one connector are about fetched again, for a superadmin: the connector is due once, and the documents that they name have no token. The audit has one entry for
-- each letter. A letter that names no document has ''. Null: there is no such connector.
-- +goose StatementBegin
CREATE FUNCTION api.replay_letters(letters bigint[], subjects text[], source_ids text[], connector integer) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    asked timestamptz;
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'dead letters are for superadmins' USING ERRCODE = 'insufficient_privilege';
    END IF;
    asked := moves.trigger_sync(connector);
    IF asked IS NOT NULL THEN
        UPDATE documents d SET version_token = '' WHERE d.connector_id = connector AND d.source_id = ANY (array_remove(source_ids, '')) AND d.status IN ('stored', 'failed');
        PERFORM moves.note_letters('deadletters.replay', letters, subjects, source_ids, connector);
    END IF;
    RETURN asked;
END $$;
-- +goose StatementEnd

-- Writes down that a superadmin removes up to 1,000 dead letters of one connector, or of none, which the broker does next.
-- +goose StatementBegin
CREATE FUNCTION api.drop_letters(letters bigint[], subjects text[], source_ids text[], connector integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'dead letters are for superadmins' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM moves.note_letters('deadletters.drop', letters, subjects, source_ids, connector);
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION api.replay_letters(bigint[], text[], text[], integer), api.drop_letters(bigint[], text[], text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.replay_letters(bigint[], text[], text[], integer), api.drop_letters(bigint[], text[], text[], integer) TO echomind_api;

-- +goose Down
DROP FUNCTION api.drop_letters(bigint[], text[], text[], integer);
DROP FUNCTION api.replay_letters(bigint[], text[], text[], integer);
