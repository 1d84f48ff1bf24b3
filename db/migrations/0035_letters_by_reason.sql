-- +goose Up
-- expand
-- Dead letters are replayed and removed by reason: many in one request.

-- Has what up to 100 dead letters of one connector are about fetched again, for a superadmin: the connector is due, and the documents that they name have no token. The audit has one entry for each letter; of
-- more it would name 100. A letter that names no document has ''. asked_before is the sync that was asked for with other letters of the connector: while no run has picked it up, no other is asked for. Null: there is no such connector.
-- Who holds the connector, or a document, is not waited for long: a request has letters of many connectors.
-- +goose StatementBegin
CREATE FUNCTION api.replay_letters(letters bigint[], subjects text[], source_ids text[], connector integer, asked_before timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '500ms' AS $$
DECLARE
    asked timestamptz;
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'dead letters are for superadmins' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT c.trigger_requested_at INTO asked FROM connectors c WHERE c.id = connector FOR NO KEY UPDATE;
    IF asked IS DISTINCT FROM asked_before OR asked_before IS NULL THEN
        asked := moves.trigger_sync(connector);
    END IF;
    IF asked IS NOT NULL THEN
        UPDATE documents d SET version_token = '' WHERE d.connector_id = connector AND d.source_id = ANY (array_remove(source_ids, '')) AND d.status IN ('stored', 'failed');
        PERFORM moves.note_letters('deadletters.replay', letters, subjects, source_ids, connector);
    END IF;
    RETURN asked;
END $$;
-- +goose StatementEnd

-- Writes down that a superadmin removes up to 100 dead letters of one connector, or of none, which the broker does next: one entry for each.
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

REVOKE ALL ON FUNCTION api.replay_letters(bigint[], text[], text[], integer, timestamptz), api.drop_letters(bigint[], text[], text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.replay_letters(bigint[], text[], text[], integer, timestamptz), api.drop_letters(bigint[], text[], text[], integer) TO echomind_api;

-- +goose Down
DROP FUNCTION api.drop_letters(bigint[], text[], text[], integer);
DROP FUNCTION api.replay_letters(bigint[], text[], text[], integer, timestamptz);
