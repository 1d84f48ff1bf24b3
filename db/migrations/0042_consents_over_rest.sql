-- +goose Up
-- expand
-- Consents of Google and Microsoft that were begun through services/api: what a browser keeps of one that was begun at the page is kept here, sealed, with how it ended.

CREATE TABLE consents (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Whose browser may bring the answer.
    user_id      integer NOT NULL,
    connector_id integer NOT NULL,
    state_sha256 bytea NOT NULL,
    sealed       text NOT NULL,
    until        timestamptz NOT NULL,
    ended_at     timestamptz,
    -- Why nothing is connected; null: it is, or is not yet.
    problem      text
);
-- api.consent_of: the one that an answer is of.
CREATE UNIQUE INDEX consents_state ON consents (state_sha256);
-- api.begin_consent: how many of a user wait.
CREATE INDEX consents_waiting ON consents (user_id, until) WHERE ended_at IS NULL;
-- api.begin_consent: what is old.
CREATE INDEX consents_until ON consents (until);

-- Keeps a consent of the viewer for ten minutes, and forgets some that ended a day ago. 0: as many of theirs wait as may. Null: it is for no connector that they may change.
-- +goose StatementBegin
CREATE FUNCTION api.begin_consent(connector integer, state bytea, sealed_flow text, most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    made   integer;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('api.consents'), api.viewer_id());
    DELETE FROM consents c WHERE c.id IN (SELECT o.id FROM consents o WHERE o.until < moment - interval '1 day' ORDER BY o.until LIMIT 100 FOR UPDATE SKIP LOCKED);
    IF (SELECT count(*) FROM (SELECT FROM consents c WHERE c.user_id = api.viewer_id() AND c.until > moment AND c.ended_at IS NULL LIMIT most) n) = most THEN
        RETURN 0;
    END IF;
    INSERT INTO consents (user_id, connector_id, state_sha256, sealed, until)
        SELECT api.viewer_id(), k.id, state, sealed_flow, moment + interval '10 minutes' FROM api.changeable k WHERE k.id = connector RETURNING id INTO made;
    RETURN made;
END $$;
-- +goose StatementEnd

-- The viewer's consent that an answer is of; none where it has ended, or they have not begun it.
-- +goose StatementBegin
CREATE FUNCTION api.consent_of(state bytea) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.sealed FROM consents c WHERE c.state_sha256 = state AND c.user_id = api.viewer_id() AND c.ended_at IS NULL AND c.until > clock_timestamp()
$$;
-- +goose StatementEnd

-- Says how the viewer's consent ended, once; what was sealed is forgotten.
-- +goose StatementBegin
CREATE FUNCTION api.end_consent(state bytea, why text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE consents c SET ended_at = clock_timestamp(), problem = left(why, 1000), sealed = '' WHERE c.state_sha256 = state AND c.user_id = api.viewer_id() AND c.ended_at IS NULL
$$;
-- +goose StatementEnd

-- The viewer's consents, for a day.
CREATE VIEW api.consents AS
SELECT c.id, c.connector_id, c.until, c.ended_at, c.problem,
    CASE WHEN c.problem IS NOT NULL THEN 'failed' WHEN c.ended_at IS NOT NULL THEN 'connected' WHEN c.until <= clock_timestamp() THEN 'expired' ELSE 'waiting' END AS state
FROM consents c WHERE c.user_id = api.viewer_id() AND c.until > clock_timestamp() - interval '1 day';

REVOKE ALL ON FUNCTION api.begin_consent(integer, bytea, text, integer), api.consent_of(bytea), api.end_consent(bytea, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.begin_consent(integer, bytea, text, integer), api.consent_of(bytea), api.end_consent(bytea, text) TO echomind_api;
GRANT SELECT ON api.consents TO echomind_api;

-- +goose Down
DROP VIEW api.consents;
DROP FUNCTION api.end_consent(bytea, text);
DROP FUNCTION api.consent_of(bytea);
DROP FUNCTION api.begin_consent(integer, bytea, text, integer);
DROP TABLE consents;
