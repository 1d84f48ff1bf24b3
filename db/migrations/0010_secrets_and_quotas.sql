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

-- +goose Down
DROP FUNCTION provider_quota_take(text, double precision, double precision, integer);
DROP TABLE provider_quotas;
DROP TRIGGER connector_secrets_forget ON connectors;
DROP FUNCTION connector_secrets_forget();
DROP FUNCTION moves.replace_secret(uuid, uuid, text, text);
DROP TABLE connector_secrets;
