-- +goose Up
-- Who may do what through services/api, and what people have changed, whichever way they did. See docs/adr/0035.

-- What a user may do, where an administrator or a sign-in has said so. A token of somebody who has no row here has the role it was
-- created with.
CREATE TABLE users (
    user_id integer PRIMARY KEY
        CONSTRAINT users_user_id_positive CHECK (user_id > 0),
    role    text NOT NULL DEFAULT 'user'
        CONSTRAINT users_role_known CHECK (role IN ('user', 'admin', 'superadmin'))
);

-- Who is in a group: group_id is the scope_id of its connectors.
CREATE TABLE group_members (
    user_id  integer
        CONSTRAINT group_members_user_id_positive CHECK (user_id > 0),
    group_id text
        CONSTRAINT group_members_group_id_form CHECK (group_id ~ '^[A-Za-z0-9_-]{1,128}$'),
    leads    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (user_id, group_id)
);

-- Whom an issuer calls by a subject; or, where issuer is "header:" and a header's name, a proxy by that header. No user: nobody any more, until it is linked anew.
CREATE TABLE identities (
    issuer  text
        CONSTRAINT identities_issuer_length CHECK (length(issuer) BETWEEN 1 AND 500),
    subject text
        CONSTRAINT identities_subject_length CHECK (length(subject) BETWEEN 1 AND 255),
    user_id integer
        CONSTRAINT identities_user_id_positive CHECK (user_id > 0),
    -- Null: somebody has linked it. Else when its user was made, at first sight.
    made_at timestamptz,
    PRIMARY KEY (issuer, subject)
);
-- Identities: those of a user.
CREATE INDEX identities_user ON identities (user_id);
-- sign_in: how many were made of late.
CREATE INDEX identities_made ON identities (made_at) WHERE made_at IS NOT NULL;
-- Users that are made at first sight are numbered from here, so that none is one whom another system has numbered.
CREATE SEQUENCE made_users AS integer START 1000000000;

-- Users who were removed, and whom no issuer brings back by naming their number. A link does.
CREATE TABLE removed_users (
    user_id integer PRIMARY KEY
);

-- Tokens of programs. Only a hash of the secret is kept.
CREATE TABLE access_tokens (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      integer NOT NULL
        CONSTRAINT access_tokens_user_id_positive CHECK (user_id > 0),
    name         text NOT NULL DEFAULT ''
        CONSTRAINT access_tokens_name_length CHECK (length(name) <= 200),
    role         text NOT NULL
        CONSTRAINT access_tokens_role_known CHECK (role IN ('user', 'admin', 'superadmin')),
    scopes       text[] NOT NULL
        CONSTRAINT access_tokens_scopes_known CHECK (scopes <@ ARRAY['read', 'operate', 'write', 'admin'] AND cardinality(scopes) BETWEEN 1 AND 4),
    secret_sha256 bytea NOT NULL
        CONSTRAINT access_tokens_secret_length CHECK (octet_length(secret_sha256) = 32),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text NOT NULL,
    expires_at   timestamptz
        CONSTRAINT access_tokens_expires_range CHECK (expires_at BETWEEN '2000-01-01 00:00+00' AND '9999-01-01 00:00+00'),
    revoked_at   timestamptz,
    -- Written at most once an hour.
    last_used_at timestamptz,
    -- The tokens through which it was made, the first of them first. It counts while each of them does, and may no more than any of them, so that ending one
    -- changes one row.
    made_through integer[] NOT NULL DEFAULT '{}'
        CONSTRAINT access_tokens_made_depth CHECK (cardinality(made_through) <= 8)
);
-- Tokens: those of a user.
CREATE INDEX access_tokens_user ON access_tokens (user_id, id);
-- bound_tokens: the latest of a user that are no sessions.
CREATE INDEX access_tokens_made ON access_tokens (user_id, id) WHERE name IS DISTINCT FROM 'browser';
-- bound_sessions: the latest that were begun with a token.
CREATE INDEX access_tokens_sessions ON access_tokens ((made_through[cardinality(made_through)]), id) WHERE name = 'browser';
-- keep_audit: those that are over for long.
CREATE INDEX access_tokens_over ON access_tokens (least(revoked_at, expires_at));
-- keep_audit: those that one has made, and these.
CREATE INDEX access_tokens_made_through ON access_tokens USING gin (made_through);
-- Tokens: those of a user that are not over.
CREATE INDEX access_tokens_left ON access_tokens (user_id, coalesce(expires_at, 'infinity')) WHERE revoked_at IS NULL;

-- Links that sign a browser in, once: `echomind run` prints one. Only a hash of the code is kept.
CREATE TABLE sign_in_links (
    code_sha256 bytea PRIMARY KEY
        CONSTRAINT sign_in_links_code_length CHECK (octet_length(code_sha256) = 32),
    -- Whose session it begins: one that counts while this token counts.
    token_id    integer NOT NULL,
    expires_at  timestamptz NOT NULL
        CONSTRAINT sign_in_links_expires_soon CHECK (expires_at <= clock_timestamp() + interval '1 hour')
);
-- open_link: those that nobody has used.
CREATE INDEX sign_in_links_over ON sign_in_links (expires_at);

-- A token that was revoked stays so, since then.
-- +goose StatementBegin
CREATE FUNCTION access_tokens_stay_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'token % was revoked at %, and stays so', OLD.id, OLD.revoked_at
        USING ERRCODE = 'check_violation', CONSTRAINT = 'access_tokens_revoked_once', HINT = 'Make another token.';
END $$;
-- +goose StatementEnd
CREATE TRIGGER access_tokens_revoked_once BEFORE UPDATE OF revoked_at ON access_tokens FOR EACH ROW
    WHEN (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at) EXECUTE FUNCTION access_tokens_stay_revoked();

-- What was said of a user is taken back: their tokens, which counted as it said, count no more, and no issuer signs them in.
-- +goose StatementBegin
CREATE FUNCTION users_revoke_tokens() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO removed_users VALUES (OLD.user_id) ON CONFLICT DO NOTHING;
    UPDATE identities i SET user_id = NULL WHERE i.user_id = OLD.user_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Behind the lock that create_token takes for whom an issuer has signed in: a token that they have made until then is revoked, and they make none behind it.
-- +goose StatementBegin
CREATE FUNCTION removed_users_revoke() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('echomind.removed_users'), NEW.user_id);
    UPDATE access_tokens t SET revoked_at = clock_timestamp()
        WHERE t.user_id = NEW.user_id AND t.revoked_at IS NULL AND coalesce(t.expires_at, 'infinity') > (SELECT clock_timestamp());
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER removed_users_revoked BEFORE INSERT ON removed_users FOR EACH ROW EXECUTE FUNCTION removed_users_revoke();
CREATE TRIGGER users_deleted AFTER DELETE ON users FOR EACH ROW EXECUTE FUNCTION users_revoke_tokens();

-- Who is linked anew is removed no more.
-- +goose StatementBegin
CREATE FUNCTION identities_link() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM removed_users r WHERE r.user_id = NEW.user_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER identities_linked AFTER INSERT OR UPDATE OF user_id ON identities FOR EACH ROW WHEN (NEW.user_id IS NOT NULL) EXECUTE FUNCTION identities_link();

-- What people have changed. It is appended to, by the functions and triggers below, in the transaction of the change.
CREATE TABLE audit (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- api, console, or sql: whichever program it was that wrote; login is who has logged in to Postgres, and cannot be made up.
    source       text NOT NULL CONSTRAINT audit_source_known CHECK (source IN ('api', 'console', 'sql')),
    login        text NOT NULL,
    person       text NOT NULL,
    user_id      integer,
    token_id     integer,
    -- Who has said that it is this user, and by which name; null: a token has, or nobody.
    issuer       text,
    subject      text,
    request_id   text CONSTRAINT audit_request_id_length CHECK (length(request_id) <= 200),
    note         text CONSTRAINT audit_note_length CHECK (length(note) <= 2000),
    action       text NOT NULL,
    object_id    text NOT NULL,
    -- The connector that it is about, with whose it was: who sees a connector sees what was done to it.
    connector_id integer,
    type         text,
    owner_id     integer,
    scope        text,
    scope_id     text,
    -- What it was before, of a change.
    was_type     text,
    was_owner_id integer,
    was_scope    text,
    was_scope_id text,
    -- Of a change the columns that have changed. A secret is a fingerprint: equal ones are equal secrets.
    before       jsonb,
    after        jsonb
);
-- Audit: what was done to a connector, the latest first.
CREATE INDEX audit_connector ON audit (connector_id, id);

-- What was asked with an Idempotency-Key, and what has come of it, so that it is not done again. It is kept for a day.
CREATE TABLE request_keys (
    user_id integer,
    key     text CONSTRAINT request_keys_key_length CHECK (length(key) BETWEEN 1 AND 200),
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- SHA-256 of the request.
    asked   bytea NOT NULL,
    -- What the answer is made of once more: a number, a time.
    done    text NOT NULL DEFAULT '' CONSTRAINT request_keys_done_length CHECK (length(done) <= 200),
    PRIMARY KEY (user_id, key)
);
-- keep_audit: those that are too old.
CREATE INDEX request_keys_at ON request_keys (at);
-- begin_request: those that a user has too many of.
CREATE INDEX request_keys_of ON request_keys (user_id, at);

-- What fingerprints are made with, so that nobody finds a short secret by trying.
CREATE TABLE audit_key (
    single boolean PRIMARY KEY DEFAULT true CONSTRAINT audit_key_single CHECK (single),
    key    bytea NOT NULL DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
);
INSERT INTO audit_key DEFAULT VALUES;

-- Who is at work: a user of services/api, which says whom it serves; a person at the command line; or a login.
-- +goose StatementBegin
CREATE FUNCTION moves.actor(OUT source text, OUT person text, OUT user_id integer, OUT token_id integer, OUT issuer text, OUT subject text, OUT request_id text, OUT note text)
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    request jsonb := nullif(current_setting('echomind.request', true), '')::jsonb;
    program text := current_setting('application_name');
BEGIN
    IF request IS NOT NULL AND pg_has_role(session_user, 'echomind_api', 'MEMBER') THEN
        source := 'api';
        user_id := (request ->> 'user_id')::integer;
        token_id := (request ->> 'token_id')::integer;
        issuer := request ->> 'issuer';
        subject := request ->> 'subject';
        person := 'user ' || user_id;
        request_id := left(request ->> 'request_id', 200);
        note := left(request ->> 'note', 2000);
    ELSIF program LIKE 'echomind/%' AND pg_has_role(session_user, 'echomind_console', 'MEMBER') THEN
        source := 'console';
        person := substr(program, 10);
    ELSE
        source := 'sql';
        person := 'login ' || session_user;
    END IF;
END $$;
-- +goose StatementEnd

-- Writes down what somebody did: connectors.disable, tokens.create, … of: the connector that it is about; was: what it was before.
-- +goose StatementBegin
CREATE FUNCTION moves.note_change(action text, object_id text, before jsonb, after jsonb, of connectors DEFAULT NULL, was connectors DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (source, login, person, user_id, token_id, issuer, subject, request_id, note, action, object_id, connector_id, type, owner_id, scope, scope_id,
        was_type, was_owner_id, was_scope, was_scope_id, before, after)
    SELECT a.source, session_user, a.person, a.user_id, a.token_id, a.issuer, a.subject, a.request_id, a.note, note_change.action, note_change.object_id,
        of.id, of.type, of.user_id, of.scope, of.scope_id, was.type, was.user_id, was.scope, was.scope_id, note_change.before, note_change.after
    FROM moves.actor() a;
END $$;
-- +goose StatementEnd

-- What stands for a secret in the audit.
-- +goose StatementBegin
CREATE FUNCTION moves.fingerprint(secret text) RETURNS text
    LANGUAGE sql STABLE AS $$
    SELECT 'secret:' || left(encode(sha256(k.key || convert_to(secret, 'UTF8')), 'hex'), 12) FROM audit_key k
$$;
-- +goose StatementEnd

-- A word of a text with fingerprints for who may enter, and for what follows the first ? or #, of the URLs in it. These stand between chr(1)
-- and chr(2) until pairs are looked for, as what is hidden already is no pair. What no port follows a colon as may be a password.
-- +goose StatementBegin
CREATE FUNCTION moves.fingerprinted_url(word text) RETURNS text
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    tail text := coalesce(substring(word FROM '//[^?#]*[?#](.+)$'), '');
BEGIN
    RETURN (SELECT string_agg(CASE WHEN p.place = 1 OR p.hidden IS NULL THEN p.piece
            ELSE chr(1) || substr(moves.fingerprint(p.hidden), 8) || chr(2) || substr(p.piece, length(p.hidden) + 1) END, '//' ORDER BY p.place)
        FROM (SELECT s.piece, s.place, coalesce(substring(s.piece FROM '^([^/]*)@'), substring(s.piece FROM '^[^/]*:[0-9]*[^]0-9,:/?#].*')) AS hidden
            FROM unnest(string_to_array(left(word, length(word) - length(tail)), '//')) WITH ORDINALITY s(piece, place)) p)
        || CASE WHEN tail <> '' THEN chr(1) || substr(moves.fingerprint(tail), 8) || chr(2) ELSE '' END;
END $$;
-- +goose StatementEnd

-- Whether a name is one of a secret: internal/masks has the same words.
-- +goose StatementBegin
CREATE FUNCTION moves.is_secret_name(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
    SELECT lower(left(name, 200)) ~ '(token|secret|password|passwd|passphrase|credential|apikey|privatekey|accesskey|accountkey|sharedkey|signingkey|encryptionkey|authorization|cookie|service_?account)'
        OR lower(regexp_replace(left(name, 200), '([^A-Z])([A-Z])', '\1 \2', 'g')) ~ '(^|[^a-z])(keys?|sig|signature|pwd|pass|auth|jwt|bearer|pin|otp)([^a-z]|$)'
$$;
-- +goose StatementEnd

-- Whether what an object has under a key is a secret: by the key's name, or by the name that stands beside it, as in {"name": "password", "value": …}.
-- +goose StatementBegin
CREATE FUNCTION moves.is_secret_in(of jsonb, key text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
    SELECT moves.is_secret_name(key) OR (lower(key) IN ('value', 'values') AND EXISTS (SELECT FROM jsonb_each_text(of) n
        WHERE lower(n.key) IN ('name', 'header', 'id', 'field') AND moves.is_secret_name(n.value)))
$$;
-- +goose StatementEnd

-- Whether a text has a secret that is known by its form: a header, a key, a token of an issuer that marks its own, a flag of a command line.
-- +goose StatementBegin
CREATE FUNCTION moves.is_secret_text(plain text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
    SELECT plain ~* '(^|[^a-z])(bearer|basic)[[:space:]:="\\]+[a-z0-9._~+/=-]{6}' OR plain ~* '(authorization|cookie)["\\]*[[:space:]]*[=:]' OR plain ~* '--[- +a-z]*private[ +]key'
        OR plain ~ '(^|[^A-Za-z0-9])(gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|ya29\.|ems_[0-9]+_|eyJ[A-Za-z0-9_-]{6,}\.)[A-Za-z0-9_.-]{10}'
        OR plain ~ '(^|[[:space:]"''])(-u|-U|--user|--proxy-user)[[:space:]=]*["'']?[^[:space:]:"''-][^[:space:]:"'']*:[^[:space:]/]'
        OR plain ~* '(^|[[:space:]"''])--?[a-z-]*(password|passwd|passphrase|token|secret|key)[a-z-]*["'']?[[:space:]]+[^[:space:]-]'
$$;
-- +goose StatementEnd

-- A configuration with fingerprints for secrets: envelopes, values of keys that look secret, what URLs and connection strings carry, texts that have others.
-- +goose StatementBegin
CREATE FUNCTION moves.fingerprinted(value jsonb, is_secret boolean DEFAULT false) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    plain text;
BEGIN
    CASE jsonb_typeof(value)
    WHEN 'object' THEN
        RETURN coalesce((SELECT jsonb_object_agg(k.key, moves.fingerprinted(k.value, is_secret OR moves.is_secret_in(fingerprinted.value, k.key))) FROM jsonb_each(fingerprinted.value) k), '{}');
    WHEN 'array' THEN
        -- As in ["X-Api-Key", …], and in ["--password", …].
        RETURN coalesce((SELECT jsonb_agg(moves.fingerprinted(e.value, is_secret OR coalesce((e.before LIKE '-%' OR jsonb_array_length(fingerprinted.value) = 2)
                AND moves.is_secret_name(e.before), false)) ORDER BY e.ordinality)
            FROM (SELECT a.value, a.ordinality, CASE WHEN jsonb_typeof(lag(a.value) OVER w) = 'string' THEN lag(a.value) OVER w #>> '{}' END AS before
                FROM jsonb_array_elements(fingerprinted.value) WITH ORDINALITY a WINDOW w AS (ORDER BY a.ordinality)) e), '[]');
    WHEN 'string' THEN
        plain := value #>> '{}';
    WHEN 'number' THEN
        IF NOT is_secret THEN
            RETURN value;
        END IF;
        plain := value #>> '{}';
    ELSE
        RETURN value;
    END CASE;
    IF is_secret OR plain LIKE 'enc:v1:%' OR moves.is_secret_text(plain) THEN
        RETURN to_jsonb(moves.fingerprint(plain));
    END IF;
    plain := translate(plain, chr(1) || chr(2), '');
    IF plain LIKE '%//%' THEN
        SELECT string_agg(CASE WHEN w.word[1] LIKE '%//%' THEN moves.fingerprinted_url(w.word[1]) ELSE w.word[1] END, '' ORDER BY w.place) INTO plain
        FROM regexp_matches(plain, '[[:space:]]+|[^[:space:]]+', 'g') WITH ORDINALITY w(word, place);
    END IF;
    -- A pair, or somebody who may enter, that is not hidden by now: where it ends is not told from other text.
    IF plain ~* '(token|secret|passwor[dt]|passwd|pwd|passphrase|credential|key|sig|sess(ion)?id|(^|[^a-z])(pass|auth|jwt)([^a-z]|$))[a-z_-]*["''\\]*[[:space:]]*[=:]'
            OR plain ~ (':[^@/[:space:]' || chr(1) || chr(2) || ']+@') OR plain ~ (chr(2) || '[[:space:]][^@' || chr(2) || ']*@') THEN
        RETURN to_jsonb(moves.fingerprint(value #>> '{}'));
    END IF;
    RETURN to_jsonb(translate(replace(plain, chr(1), 'secret:'), chr(2), ''));
END $$;
-- +goose StatementEnd

-- What the audit keeps of a configuration: the fields that are not those of another one. Of what is longer than 2 KiB, and of all of them where they are longer than
-- 8 KiB together, a fingerprint and how long it is.
-- +goose StatementBegin
CREATE FUNCTION moves.kept_config(of jsonb, from_ jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    kept jsonb;
BEGIN
    IF octet_length((CASE jsonb_typeof(of) WHEN 'object' THEN (SELECT jsonb_object_agg(k.key, k.value) FROM jsonb_each(of) k
            WHERE octet_length(k.value::text) <= 2048 AND k.value IS DISTINCT FROM from_ -> k.key) ELSE of END)::text) > 8192 THEN
        RETURN to_jsonb(format('%s, %s bytes', moves.fingerprint(of::text), octet_length(of::text)));   -- not read further: what is hostile takes long
    ELSIF jsonb_typeof(of) IS DISTINCT FROM 'object' THEN
        RETURN moves.fingerprinted(of);
    END IF;
    SELECT coalesce(jsonb_object_agg(k.key, CASE WHEN octet_length(k.value::text) > 2048 THEN to_jsonb(format('%s, %s bytes', moves.fingerprint(k.value::text), octet_length(k.value::text)))
        ELSE moves.fingerprinted(k.value, moves.is_secret_in(of, k.key)) END), '{}') INTO kept
    FROM jsonb_each(of) k
    WHERE coalesce(jsonb_typeof(from_), '') <> 'object' OR k.value IS DISTINCT FROM from_ -> k.key;
    IF octet_length(kept::text) > 8192 THEN
        RETURN to_jsonb(format('%s, %s bytes', moves.fingerprint(of::text), octet_length(of::text)));
    END IF;
    RETURN kept;
END $$;
-- +goose StatementEnd

-- Of two rows the columns that differ, as the audit shows them; null where there is no row.
-- +goose StatementBegin
CREATE FUNCTION moves.differing(of jsonb, from_ jsonb) RETURNS jsonb
    LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_object_agg(k.key, CASE k.key WHEN 'config' THEN moves.kept_config(k.value, from_ -> 'config') ELSE k.value END), '{}')
    FROM jsonb_each(of) k
    WHERE of IS NOT NULL AND (from_ IS NULL OR k.value IS DISTINCT FROM from_ -> k.key)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION connectors_audit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    -- What only moves write, and who it was that wrote: both are said elsewhere.
    moved CONSTANT text[] := ARRAY['status', 'status_message', 'config_version', 'added_version', 'synced_version', 'listed_version', 'state', 'listing',
        'last_sync_at', 'next_sync_at', 'due_reason', 'slot_at', 'slots_through', 'planned_through', 'needs_plan', 'claimed_at', 'claimed_for', 'synced_for',
        'deletions_allowed_at', 'next_parameters', 'parameters_due_at', 'kept_plan', 'due_at', 'run_id', 'failure_count', 'docs_analyzed', 'put_off_since', 'at_fault', 'trigger_requested_at',
        'created_at', 'created_by', 'updated_at', 'updated_by', 'over_at', 'wanted', 'condition_met_at', 'asks_condition', 'waits_for_key', 'follows', 'followed', 'upstreams_met_at',
        'asks_upstreams'];
    old_row jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - moved END;
    new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - moved END;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM moves.note_change('connectors.delete', OLD.id::text, moves.differing(old_row, NULL), NULL, OLD);
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM moves.note_change('connectors.create', NEW.id::text, NULL, moves.differing(new_row, NULL), NEW);
    ELSIF TG_NAME = 'connectors_noted_triggered' THEN
        PERFORM moves.note_change('connectors.sync', NEW.id::text, NULL, NULL, NEW);
    ELSIF new_row <> old_row AND current_setting('echomind.resealing', true) IS NOT DISTINCT FROM 'on' AND connector_resealed(OLD, NEW) THEN
        PERFORM moves.note_change('connectors.reseal', NEW.id::text, jsonb_build_object('config', moves.fingerprint(OLD.config::text)),
            jsonb_build_object('config', moves.fingerprint(NEW.config::text)), NEW);
    ELSIF new_row <> old_row THEN
        PERFORM moves.note_change('connectors.update', NEW.id::text, moves.differing(old_row, new_row), moves.differing(new_row, old_row), NEW, OLD);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- Their names come after connectors_config_depth and _size: what these refuse is not read here.
CREATE TRIGGER connectors_noted AFTER INSERT OR DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_audit();
-- The columns that users write: a move writes none of them, and its rows cost nothing here.
CREATE TRIGGER connectors_noted_changed AFTER UPDATE OF name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone,
    dst_gap, dst_overlap, spread_percent, deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries, deletion_guard ON connectors
    FOR EACH ROW EXECUTE FUNCTION connectors_audit();
-- Plain SQL that triggers. moves.trigger_sync says more itself.
CREATE TRIGGER connectors_noted_triggered AFTER UPDATE OF trigger_requested_at ON connectors FOR EACH ROW
    WHEN (NEW.trigger_requested_at IS DISTINCT FROM OLD.trigger_requested_at AND NEW.trigger_requested_at IS NOT NULL
        AND (coalesce(current_setting('echomind.moving', true), '') = '' OR NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE')))
    EXECUTE FUNCTION connectors_audit();

-- A rotated secret that is not replaced by its connector's run.
-- +goose StatementBegin
CREATE FUNCTION connector_secrets_audit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM moves.note_change('connectors.reseal', NEW.connector_id::text, jsonb_build_object(NEW.name, moves.fingerprint(OLD.envelope)),
        jsonb_build_object(NEW.name, moves.fingerprint(NEW.envelope)), c) FROM connectors c WHERE c.id = NEW.connector_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connector_secrets_noted AFTER UPDATE OF envelope ON connector_secrets FOR EACH ROW
    WHEN (NEW.envelope <> OLD.envelope AND NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE')) EXECUTE FUNCTION connector_secrets_audit();

-- Whose change it was, where the statement does not say.
-- +goose StatementBegin
CREATE FUNCTION connectors_by() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    writer text := (SELECT a.person FROM moves.actor() a);
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.created_by := coalesce(NEW.created_by, writer);
        NEW.updated_by := coalesce(NEW.updated_by, NEW.created_by);
    ELSIF current_setting('echomind.resealing', true) IS DISTINCT FROM 'on' THEN
        NEW.updated_by := writer;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_by_added BEFORE INSERT ON connectors FOR EACH ROW
    WHEN (NEW.created_by IS NULL OR NEW.updated_by IS NULL) EXECUTE FUNCTION connectors_by();
CREATE TRIGGER connectors_by_changed BEFORE UPDATE OF name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone,
    dst_gap, dst_overlap, spread_percent, deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries, deletion_guard ON connectors
    FOR EACH ROW WHEN (NEW.updated_by IS NOT DISTINCT FROM OLD.updated_by) EXECUTE FUNCTION connectors_by();

-- Writes down a change of a row of another table. Its arguments are what the changes are called, the columns of the key, what is not shown, and the column of the
-- connector that it is a change of, where it is one's.
-- +goose StatementBegin
CREATE FUNCTION audit_row() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    old_row jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    key     text := (SELECT string_agg(coalesce(new_row, old_row) ->> k.name, '/' ORDER BY k.place) FROM unnest(TG_ARGV[1]::text[]) WITH ORDINALITY k(name, place));
BEGIN
    old_row := old_row - TG_ARGV[2]::text[];
    new_row := new_row - TG_ARGV[2]::text[];
    IF old_row IS DISTINCT FROM new_row THEN
        PERFORM moves.note_change(TG_ARGV[0] || CASE TG_OP WHEN 'INSERT' THEN '.create' WHEN 'UPDATE' THEN '.update' ELSE '.delete' END, key,
            CASE WHEN old_row IS NOT NULL THEN moves.differing(old_row, new_row) END, CASE WHEN new_row IS NOT NULL THEN moves.differing(new_row, old_row) END,
            (SELECT c FROM connectors c WHERE c.id = (coalesce(new_row, old_row) ->> TG_ARGV[3])::integer));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER access_tokens_audit AFTER INSERT OR UPDATE ON access_tokens
    FOR EACH ROW EXECUTE FUNCTION audit_row('tokens', '{id}', '{secret_sha256,last_used_at}');
-- But of keep_audit, which removes what is over for long. No role deletes a token.
CREATE TRIGGER access_tokens_audit_deleted AFTER DELETE ON access_tokens FOR EACH ROW
    WHEN (current_setting('echomind.keeping', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION audit_row('tokens', '{id}', '{secret_sha256,last_used_at}');
CREATE TRIGGER users_audit AFTER INSERT OR UPDATE OR DELETE ON users FOR EACH ROW EXECUTE FUNCTION audit_row('users', '{user_id}', '{}');
CREATE TRIGGER group_members_audit AFTER INSERT OR UPDATE OR DELETE ON group_members FOR EACH ROW EXECUTE FUNCTION audit_row('groups', '{group_id,user_id}', '{}');
CREATE TRIGGER identities_audit AFTER INSERT OR UPDATE OR DELETE ON identities FOR EACH ROW EXECUTE FUNCTION audit_row('identities', '{issuer,subject}', '{}');
CREATE TRIGGER removed_users_audit AFTER INSERT OR DELETE ON removed_users FOR EACH ROW EXECUTE FUNCTION audit_row('removed_users', '{user_id}', '{}');
CREATE TRIGGER connector_types_audit AFTER INSERT OR UPDATE OR DELETE ON connector_types FOR EACH ROW EXECUTE FUNCTION audit_row('types', '{name}', '{}');
CREATE TRIGGER conditions_audit AFTER INSERT OR UPDATE OR DELETE ON conditions FOR EACH ROW EXECUTE FUNCTION audit_row('conditions', '{name}', '{}');
CREATE TRIGGER calendars_audit AFTER INSERT OR UPDATE OR DELETE ON calendars FOR EACH ROW EXECUTE FUNCTION audit_row('calendars', '{name}', '{entries}');
CREATE TRIGGER concurrency_limits_audit AFTER INSERT OR UPDATE OR DELETE ON concurrency_limits FOR EACH ROW EXECUTE FUNCTION audit_row('limits', '{key}', '{}');
CREATE TRIGGER owner_quotas_audit AFTER INSERT OR UPDATE OR DELETE ON owner_quotas FOR EACH ROW EXECUTE FUNCTION audit_row('quotas', '{user_id}', '{}');

-- +goose StatementBegin
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is appended to: an entry is neither edited nor removed'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_appended_only',
            HINT = 'Old entries go by moves.keep_audit.';
END $$;
-- +goose StatementEnd
-- No role deletes an entry, so that nobody but the schema's owner gains by the setting.
CREATE TRIGGER audit_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON audit FOR EACH STATEMENT
    WHEN (current_setting('echomind.keeping', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION audit_refuse();

-- What services/api may see and change. It reads and writes connectors by these views alone: it has no right to the tables below them.
-- Each request says in echomind.request, which ends with its transaction, whom it serves; without that nothing is seen.
CREATE SCHEMA api;

-- Written so that the planner takes each in, and knows what it selects.
-- +goose StatementBegin
CREATE FUNCTION api.viewer() RETURNS jsonb LANGUAGE sql STABLE AS $$ SELECT nullif(current_setting('echomind.request', true), '')::jsonb $$;
CREATE FUNCTION api.viewer_id() RETURNS integer LANGUAGE sql STABLE AS $$ SELECT (nullif(current_setting('echomind.request', true), '')::jsonb ->> 'user_id')::integer $$;
CREATE FUNCTION api.is_superadmin() RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT coalesce(nullif(current_setting('echomind.request', true), '')::jsonb ->> 'role' = 'superadmin', false) $$;
CREATE FUNCTION api.is_admin() RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT coalesce(nullif(current_setting('echomind.request', true), '')::jsonb ->> 'role' IN ('admin', 'superadmin'), false) $$;
-- The scopes in which the viewer sees every connector, and every job.
CREATE FUNCTION api.open_scopes() RETURNS text[] LANGUAGE sql STABLE AS $$ SELECT CASE nullif(current_setting('echomind.request', true), '')::jsonb ->> 'role'
    WHEN 'superadmin' THEN '{user,group,org,system}' WHEN 'admin' THEN '{org}' WHEN 'user' THEN '{org}' ELSE '{}' END::text[] $$;
CREATE FUNCTION api.job_scopes() RETURNS text[] LANGUAGE sql STABLE AS $$ SELECT CASE nullif(current_setting('echomind.request', true), '')::jsonb ->> 'role'
    WHEN 'superadmin' THEN '{user,group,org,system}' WHEN 'admin' THEN '{user,group,org,system}' ELSE '{}' END::text[] $$;
-- +goose StatementEnd
-- The groups that somebody is in; those that they lead; those that they are in as an administrator. They are settings of their own, between commas: somebody may be in
-- a thousand, and each row that is looked at would read all of them with the rest of the request.
-- +goose StatementBegin
CREATE FUNCTION api.groups(key text) RETURNS text[] LANGUAGE sql STABLE AS $$ SELECT string_to_array(coalesce(current_setting('echomind.' || key, true), ''), ',') $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION api.job_types() RETURNS text[] LANGUAGE sql STABLE AS $$ SELECT coalesce(array_agg(t.name), '{}') FROM public.connector_types t WHERE t.kind = 'job' $$;
-- +goose StatementEnd

CREATE VIEW api.connectors AS
SELECT c.id, c.name, c.type, c.user_id, c.scope, c.scope_id, c.config, c.refresh_freq_minutes, c.schedule_cron, c.run_at_once, c.time_zone, c.dst_gap, c.dst_overlap,
    c.spread_percent, c.deadline_minutes, c.overlap, c.once_per, c.catch_up, c.catch_up_most, c.catch_up_minutes, c.fresh_within_minutes, c.max_retries, c.deletion_guard,
    c.trigger_requested_at, c.created_at, c.created_by, c.updated_at, c.updated_by, c.status, c.status_message, c.config_version, c.last_sync_at,
    c.next_sync_at, c.due_reason, c.planned_through, c.needs_plan, c.claimed_at, c.claimed_for, c.synced_for, c.deletions_allowed_at, c.next_parameters,
    c.run_id, c.failure_count, c.put_off_since, c.slot_at, c.over_at, c.condition, c.calendar, c.calendar_use, c.concurrency_keys, c.waits_for_key, c.kept_plan, c.parameters_due_at, c.synced_version,
    c.follows, now()::timestamptz AS seen_at,
    api.is_superadmin() OR (c.type <> ALL ((SELECT api.job_types())::text[])
        AND ((c.scope = 'user' AND c.user_id = api.viewer_id()) OR (c.scope = 'group' AND c.scope_id = ANY ((SELECT api.groups('change_groups'))::text[])))) AS may_change
FROM connectors c
WHERE (c.scope = ANY (api.open_scopes())
        OR (c.scope = 'user' AND c.user_id = api.viewer_id())
        OR (c.scope = 'group' AND c.scope_id = ANY (api.groups('groups')))
        OR (c.scope = ANY (api.job_scopes()) AND c.type = ANY ((SELECT api.job_types())::text[])))
    AND (c.type <> ALL ((SELECT api.job_types())::text[]) OR c.scope = ANY (api.job_scopes()));

-- What somebody may change, and what it may become.
CREATE VIEW api.changeable AS SELECT * FROM api.connectors WHERE may_change WITH CASCADED CHECK OPTION;

-- What somebody may give: another scope, owner or type, as connectors_given says. Who may change a connector of somebody else's changes none of these.
CREATE VIEW api.givable AS SELECT * FROM api.changeable WHERE api.is_superadmin() OR user_id = api.viewer_id() WITH CASCADED CHECK OPTION;

-- Since which version of its configuration a connector has its owner, and since which all that says who sees it, and since when; no row: since it is there. Its runs, and
-- what was stored, of before are for who saw them.
CREATE TABLE connector_handovers (
    connector_id   integer PRIMARY KEY,
    user_id        integer NOT NULL,
    owned_version  bigint NOT NULL,
    shared_version bigint NOT NULL,
    owned_at       timestamptz NOT NULL,
    shared_at      timestamptz NOT NULL
);

-- Links by which somebody who may not sign in sees how fresh a connector is. A connector has one; it ends when the connector is given away or deleted.
CREATE TABLE badges (
    connector_id  integer PRIMARY KEY,
    -- No later connector of the same number has it.
    added_version bigint NOT NULL,
    secret_sha256 bytea NOT NULL
        CONSTRAINT badges_secret UNIQUE
        CONSTRAINT badges_secret_length CHECK (octet_length(secret_sha256) = 32),
    made_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TRIGGER badges_audit AFTER INSERT OR UPDATE OR DELETE ON badges FOR EACH ROW EXECUTE FUNCTION audit_row('badges', '{connector_id}', '{secret_sha256}', 'connector_id');

-- +goose StatementBegin
CREATE FUNCTION connectors_given() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM badges b WHERE b.connector_id = OLD.id;
    IF TG_OP = 'DELETE' THEN
        DELETE FROM connector_handovers h WHERE h.connector_id = OLD.id;
        RETURN NULL;
    END IF;
    IF (SELECT a.source = 'api' FROM moves.actor() a) AND NOT api.creates(NEW.type, NEW.user_id, NEW.scope, NEW.scope_id) THEN
        RAISE EXCEPTION 'connector % becomes nothing that its writer may not add', NEW.id USING ERRCODE = 'with_check_option_violation';
    END IF;
    INSERT INTO connector_handovers AS h VALUES (NEW.id, NEW.user_id, CASE WHEN NEW.user_id = OLD.user_id THEN 0 ELSE NEW.config_version END, NEW.config_version,
        CASE WHEN NEW.user_id = OLD.user_id THEN '-infinity' ELSE NEW.updated_at END, NEW.updated_at)
    ON CONFLICT (connector_id) DO UPDATE SET user_id = EXCLUDED.user_id, owned_version = greatest(h.owned_version, EXCLUDED.owned_version), shared_version = EXCLUDED.shared_version,
        owned_at = greatest(h.owned_at, EXCLUDED.owned_at), shared_at = EXCLUDED.shared_at;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_given AFTER UPDATE OF type, user_id, scope, scope_id ON connectors FOR EACH ROW
    WHEN ((NEW.type, NEW.user_id, NEW.scope, NEW.scope_id) IS DISTINCT FROM (OLD.type, OLD.user_id, OLD.scope, OLD.scope_id)) EXECUTE FUNCTION connectors_given();
CREATE TRIGGER connectors_gone AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_given();

-- Whether somebody may add a connector of an ownership, or make it of one that they may give.
-- +goose StatementBegin
CREATE FUNCTION api.creates(type text, owner integer, scope text, scope_id text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT api.is_superadmin() OR (type <> ALL (api.job_types()) AND owner = api.viewer_id()
        AND (scope = 'user' OR (scope = 'group' AND scope_id = ANY (api.groups('create_groups')))))
$$;
-- +goose StatementEnd

-- What somebody may add. Who leads a group changes its connectors, and adds none.
CREATE VIEW api.creatable AS
SELECT c.id, c.name, c.type, c.user_id, c.scope, c.scope_id, c.config, c.refresh_freq_minutes, c.schedule_cron, c.run_at_once, c.time_zone, c.dst_gap, c.dst_overlap,
    c.spread_percent, c.deadline_minutes, c.overlap, c.once_per, c.catch_up, c.catch_up_most, c.catch_up_minutes, c.fresh_within_minutes, c.calendar, c.calendar_use, c.condition, c.concurrency_keys, c.max_retries, c.deletion_guard,
    c.created_by, c.updated_by
FROM connectors c
WHERE api.creates(c.type, c.user_id, c.scope, c.scope_id)
WITH CASCADED CHECK OPTION;

-- Who names a concurrency key may take places that others need: over REST superadmins alone do.
-- +goose StatementBegin
CREATE FUNCTION connectors_name_keys() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT a.source = 'api' FROM moves.actor() a) AND NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'connector %: superadmins alone name concurrency keys over REST', NEW.id USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'connectors_keys_administered';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_keys_named AFTER INSERT ON connectors FOR EACH ROW WHEN (NEW.concurrency_keys IS NOT NULL) EXECUTE FUNCTION connectors_name_keys();
CREATE TRIGGER connectors_keys_changed AFTER UPDATE OF concurrency_keys ON connectors FOR EACH ROW
    WHEN (NEW.concurrency_keys IS DISTINCT FROM OLD.concurrency_keys) EXECUTE FUNCTION connectors_name_keys();

-- Whether somebody sees a connector of an ownership, as api.connectors says.
-- +goose StatementBegin
CREATE FUNCTION api.sees(type text, owner integer, scope text, scope_id text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE WHEN type = ANY (api.job_types()) THEN scope = ANY (api.job_scopes())
        ELSE scope = ANY (api.open_scopes()) OR (scope = 'user' AND owner = api.viewer_id()) OR (scope = 'group' AND scope_id = ANY (api.groups('groups'))) END;
END $$;
-- +goose StatementEnd

-- Whether somebody sees a connector that is there: asked of one row after the other, never of all connectors at once.
-- +goose StatementBegin
CREATE FUNCTION api.sees_connector(connector integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM connectors c WHERE c.id = connector AND api.sees(c.type, c.user_id, c.scope, c.scope_id));
END $$;
-- +goose StatementEnd

-- Since which version of its configuration, and since when, somebody sees what a connector has done; no version: they do not see it. Some minutes before that, as a
-- transaction that began earlier may have the later version.
-- +goose StatementBegin
CREATE FUNCTION api.seen_since(connector integer, OUT version bigint, OUT at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF api.sees_connector(connector) THEN
        SELECT CASE WHEN h.user_id = api.viewer_id() THEN h.owned_version ELSE h.shared_version END,
            CASE WHEN h.user_id = api.viewer_id() THEN h.owned_at ELSE h.shared_at END - interval '10 minutes' INTO version, at
        FROM connector_handovers h WHERE h.connector_id = connector AND NOT api.is_superadmin();
        version := coalesce(version, 0);
        at := coalesce(at, '-infinity');
    END IF;
END $$;
-- +goose StatementEnd

-- The runs of what somebody sees, and saw then; those of deleted connectors are for who sees everything. Not the try: who knows it speaks for its run.
-- Their warnings, which name what was left out, are for who may change the connector: others would be told what its owner keeps from them.
CREATE VIEW api.runs AS
SELECT r.id, r.connector_id, r.type, r.trigger, r.slot, r.slot_last, r.missed_count, r.due_at, r.started_at, r.dispatched_at, r.dispatches,
    r.trigger_requested_at, r.deletions_allowed_at, r.parameters, r.picked_up_at, r.fetched_at, r.completed_at, r.status, r.reason, r.error_message,
    r.total, r.stored, r.checkpoint_no, r.documents_processed, r.documents_failed, r.documents_deleted, r.documents_unchanged, r.chunks_stored, r.listing_whole,
    r.config_version, r.waits_until, r.wait_message, r.resources, r.progress_done, r.progress_total, r.progress_text,
    CASE WHEN r.warnings IS NULL OR api.is_superadmin() OR EXISTS (SELECT FROM api.changeable k WHERE k.id = r.connector_id) THEN r.warnings END AS warnings, r.result
FROM scheduler_runs r WHERE api.is_superadmin() OR (api.sees_connector(r.connector_id) AND r.config_version >= coalesce((
    SELECT CASE WHEN h.user_id = api.viewer_id() THEN h.owned_version ELSE h.shared_version END FROM connector_handovers h WHERE h.connector_id = r.connector_id), 0));

-- When the last of a page of a connector's runs began, of those that somebody sees, and saw then; infinity: there is none. api.runs asks for each run who sees it: a
-- reader of a page names this bound, or the planner may have all of the connector's runs asked. It looks no further back than since, and for what runs no further than the oldest of it.
-- Of those that have ended it takes what ended from ended_since on, and where ended_before is not null those alone that ended before it.
-- +goose StatementBegin
CREATE FUNCTION api.runs_reach(connector integer, since timestamptz, before timestamptz, before_id uuid, verdict text, ended_since timestamptz, ended_before timestamptz, page integer)
    RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(min(l.started_at), 'infinity') FROM api.seen_since(connector) s CROSS JOIN LATERAL (
        SELECT r.started_at FROM scheduler_runs r
        WHERE r.connector_id = connector AND r.started_at >= greatest(s.at, since,
                CASE verdict WHEN 'running' THEN (SELECT coalesce(min(o.started_at), 'infinity') FROM open_runs o WHERE o.connector_id = connector) END)
            AND r.started_at <= before AND (r.started_at, r.id) < (before, before_id) AND r.config_version >= s.version AND (verdict IS NULL OR r.status = verdict)
            AND (r.completed_at IS NULL OR ended_since IS NULL OR r.completed_at >= ended_since) AND (ended_before IS NULL OR r.completed_at < ended_before)
        ORDER BY r.started_at DESC, r.id DESC LIMIT page) l
    WHERE s.version IS NOT NULL
$$;
-- +goose StatementEnd

-- The latest runs of each of some connectors that somebody sees, and saw then, as api.runs has them: who sees a connector is asked once for each, not once for each run.
-- +goose StatementBegin
CREATE FUNCTION api.latest_runs(connectors integer[], most integer)
    RETURNS TABLE (connector_id integer, id uuid, trigger text, status text, reason text, slot timestamptz, slot_last timestamptz, missed_count integer,
        due_at timestamptz, started_at timestamptz, completed_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT l.* FROM unnest(connectors) i(id) CROSS JOIN LATERAL api.seen_since(i.id) s CROSS JOIN LATERAL (
        SELECT r.connector_id, r.id, r.trigger, r.status, r.reason, r.slot, r.slot_last, r.missed_count, r.due_at, r.started_at, r.completed_at FROM scheduler_runs r
        WHERE r.connector_id = i.id AND r.started_at >= s.at AND r.config_version >= s.version
        ORDER BY r.started_at DESC, r.id DESC LIMIT least(most, 100)) l
    WHERE s.version IS NOT NULL
    ORDER BY l.connector_id, l.started_at DESC, l.id DESC
$$;
-- +goose StatementEnd

-- Whom connectors that somebody sees run after, as far as they see these.
CREATE VIEW api.run_after AS
SELECT a.connector_id, a.upstream_id, a.accepts, a.max_age_minutes, a.timeout_minutes FROM run_after a
WHERE api.sees_connector(a.connector_id) AND api.sees_connector(a.upstream_id);

-- The same of connectors that somebody may change, to write: nobody adds, changes or removes a row of an upstream that they do not see.
CREATE VIEW api.chained AS
SELECT a.connector_id, a.upstream_id, a.accepts, a.max_age_minutes, a.timeout_minutes FROM run_after a
WHERE EXISTS (SELECT FROM api.changeable k WHERE k.id = a.connector_id) AND api.sees_connector(a.upstream_id)
WITH CASCADED CHECK OPTION;

-- Jobs by name: who administers sees every job.
CREATE VIEW api.scheduled_jobs AS SELECT j.name, j.connector_id FROM scheduled_jobs j WHERE api.is_admin();

-- What became of the slots and runs of a connector that ended in a time, of at most so many lines of the ledger, the latest begun; a line of several slots counts each,
-- and so does the line that conditions are still adding to. as_far_as: where the lines that were counted begin; null: nothing was left out.
-- +goose StatementBegin
CREATE FUNCTION api.job_statistics(connector integer, since timestamptz, most integer, OUT completed bigint, OUT skipped bigint, OUT failed bigint,
    OUT superseded bigint, OUT missed bigint, OUT conditions_met bigint, OUT conditions_unmet bigint, OUT as_far_as timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    seen  record;
    names text := (SELECT c.condition FROM connectors c WHERE c.id = connector);
    waits unmet_slots;
    lines bigint;
BEGIN
    SELECT s.version, s.at INTO seen FROM api.seen_since(connector) s;
    IF seen.version IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*) FILTER (WHERE l.status = 'completed'), coalesce(sum(coalesce(l.missed_count, 1)) FILTER (WHERE l.status = 'skipped'), 0),
        count(*) FILTER (WHERE l.status = 'failed'), count(*) FILTER (WHERE l.status = 'superseded'), coalesce(sum(l.missed_count) FILTER (WHERE l.status = 'missed'), 0),
        count(*) FILTER (WHERE l.missed_count IS NULL AND l.asks AND (l.status <> 'skipped' OR l.picked) AND l.reason IS DISTINCT FROM 'condition failed'),
        coalesce(sum(coalesce(l.missed_count, 1)) FILTER (WHERE l.status = 'skipped' AND l.reason = format('condition `%s` not met', names)), 0),
        count(*), min(l.started_at)
    INTO completed, skipped, failed, superseded, missed, conditions_met, conditions_unmet, lines, as_far_as
    FROM (SELECT r.status, r.reason, r.missed_count, r.started_at, r.picked_up_at IS NOT NULL AS picked,
            r.trigger IN ('new', 'schedule', 'changed', 'upstream') AND r.trigger_requested_at IS NULL AND r.parameters IS NULL AS asks
        FROM runs r WHERE r.connector_id = connector AND r.completed_at >= since AND r.started_at >= seen.at AND r.config_version >= seen.version
        ORDER BY r.started_at DESC LIMIT least(most, 100000)) l;
    SELECT * INTO waits FROM unmet_slots u WHERE u.connector_id = connector AND u.last_at >= since AND u.config_version >= seen.version;
    IF waits.connector_id IS NOT NULL THEN
        skipped := skipped + waits.count;
        conditions_unmet := conditions_unmet + waits.count;
    END IF;
    IF lines < most THEN
        as_far_as := NULL;
    END IF;
    IF names IS NULL THEN
        conditions_met := NULL;
        conditions_unmet := NULL;
    END IF;
END $$;
-- +goose StatementEnd

-- Conditions are for jobs, which administrators see; what they ask the database is for who writes jobs.
CREATE VIEW api.conditions AS
SELECT k.name, CASE WHEN api.is_superadmin() THEN k.query END AS query, k.user_ids, k.timeout_ms, k.updated_at FROM conditions k WHERE api.is_admin();

-- Calendars as superadmins write them, and who names them. Everybody who signs in reads the table.
CREATE VIEW api.changeable_calendars AS
SELECT k.name, k.version, k.time_zone, k.entries, k.updated_at FROM calendars k WHERE api.is_superadmin() WITH CHECK OPTION;
CREATE VIEW api.calendar_users AS
SELECT u.calendar, u.connector_id FROM calendar_users u WHERE api.is_superadmin();

-- What `why` concludes from, of a connector that somebody sees. Not the try; and who has a lock that its run waits for, or a place of a key, only where somebody sees that as well.
CREATE VIEW api.evidence AS
SELECT
    e.seen_at, e.id, e.name, e.type, e.user_id, e.status, e.status_message, e.failure_count, e.max_retries, e.refresh_freq_minutes, e.schedule_cron,
    e.time_zone, e.dst_gap, e.dst_overlap, e.spread_percent, e.deadline_minutes, e.overlap, e.once_per, e.catch_up, e.catch_up_most, e.catch_up_minutes,
    e.fresh_within_minutes, e.synced_version, e.config_version, e.calendar, e.calendar_use, e.follows, e.asks_upstreams,
    CASE WHEN api.sees_connector(e.upstream_id) THEN e.upstream_id END AS upstream_id, CASE WHEN api.sees_connector(e.upstream_id) THEN e.upstream_name END AS upstream_name,
    CASE WHEN api.sees_connector(e.upstream_id) THEN e.upstream_status END AS upstream_status, CASE WHEN api.sees_connector(e.upstream_id) THEN e.upstream_ended_at END AS upstream_ended_at,
    e.condition, e.asks_condition, e.waits_for_key, e.key_most, e.key_held, e.key_held_since,
    CASE WHEN api.sees_connector(e.key_holder) THEN e.key_holder END AS key_holder, e.condition_met_at, e.unmet_at, e.unmet_count,
    e.claimed_at, e.synced_for, e.needs_plan, e.planned_through, e.next_sync_at, e.due_reason, e.slot_at, e.trigger_requested_at, e.parameters_due_at, e.last_sync_at, e.docs_analyzed, e.put_off_since,
    e.run_id, e.trigger, e.due_at, e.started_at, e.dispatched_at, e.dispatches, e.picked_up_at, NULL::uuid AS try_id, e.worker_id,
    e.lease_expires_at, e.fetched_at, e.drain_seq, e.total, e.stored, e.whole, e.cut,
    e.waits_until, e.wait_message, e.progress_done, e.progress_total, e.progress_text,
    e.lock_key, e.lock_asked_at, CASE WHEN api.sees_connector(e.lock_connector_id) THEN e.lock_run_id END AS lock_run_id, CASE WHEN api.sees_connector(e.lock_connector_id) THEN e.lock_connector_id END AS lock_connector_id, e.lock_expires_at,
    e.kind, e.type_cap,
    e.due_before, e.in_flight, e.owner_in_flight, e.owner_cap, e.has_other_owners, e.pending_before, e.fetching, e.dispatched_since, e.publish_error, e.type_publish_error
FROM connector_evidence e WHERE api.sees_connector(e.id);

-- The documents of a connector that somebody sees, and saw when they were stored.
CREATE VIEW api.documents AS
SELECT d.connector_id, d.source_id, d.title, d.url, d.media_type, d.status, d.error, d.chunk_count, d.updated_at, d.config_version FROM documents d
WHERE d.config_version >= (SELECT s.version FROM api.seen_since(d.connector_id) s);

-- The sources whose documents somebody finds, and since which version of its configuration they see what is stored of each: the connectors that api.connectors has, but
-- for jobs, which store none. It does not stand on api.connectors: for an administrator that walks over all connectors to find the jobs among them.
CREATE VIEW api.sources AS
SELECT c.id, c.name, c.scope, c.last_sync_at, c.fresh_within_minutes, c.synced_version, c.config_version, now()::timestamptz AS seen_at,
    greatest(c.added_version, CASE WHEN api.is_superadmin() THEN 0 WHEN h.user_id = api.viewer_id() THEN h.owned_version ELSE h.shared_version END) AS since_version
FROM connectors c LEFT JOIN connector_handovers h ON h.connector_id = c.id
WHERE (c.scope = ANY (api.open_scopes())
        OR (c.scope = 'user' AND c.user_id = api.viewer_id())
        OR (c.scope = 'group' AND c.scope_id = ANY (api.groups('groups'))))
    AND c.type <> ALL ((SELECT api.job_types())::text[]);

-- What a search of somebody finds: the chunks that documents show, of those that they see.
CREATE VIEW api.chunks AS
SELECT k.id AS connector_id, k.name AS connector, k.scope, k.last_sync_at, k.fresh_within_minutes, k.synced_version, k.config_version, k.seen_at,
    d.source_id, d.title, d.url, d.updated_at AS stored_at, c.try_id, c.first_no, c.document_id, c.no, c.text, c.heading_path, c.start_offset, c.end_offset, c.embedder, c.embedding
FROM api.sources k
JOIN documents d ON d.connector_id = k.id AND d.try_id IS NOT NULL AND d.deleted_at IS NULL AND d.config_version >= k.since_version
JOIN chunks c ON c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id;

-- Which index a search asks.
CREATE VIEW api.search_index AS SELECT i.name, i.generation FROM search_index i;

-- The document of a connector that is so many behind another by its name, so that a look for those of a status is bounded; null: there are not so many. It reads the
-- index alone.
-- +goose StatementBegin
CREATE FUNCTION api.documents_through(connector integer, after text, look integer) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT d.source_id FROM documents d WHERE api.sees_connector(connector) AND d.connector_id = connector AND d.source_id > after
    ORDER BY d.source_id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd

-- Why documents of a connector that somebody sees are failed, as internal/evidence/failures groups them. It looks at 100,000 documents, by their names.
-- +goose StatementBegin
CREATE FUNCTION api.failed_documents(connector integer, page integer)
    RETURNS TABLE (reason text, documents bigint, all_documents bigint, reasons bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    since bigint := (SELECT s.version FROM api.seen_since(connector) s);
BEGIN
    IF since IS NOT NULL THEN
        RETURN QUERY SELECT min(d.error), count(*), (sum(count(*)) OVER ())::bigint, count(*) OVER ()
            FROM (SELECT l.status, l.error, l.config_version FROM documents l WHERE l.connector_id = connector ORDER BY l.source_id LIMIT 100000) d
            WHERE d.status = 'failed' AND d.config_version >= since
            GROUP BY regexp_replace(left(d.error, 300), '[a-z]+://[^ ]+|[0-9]{4,}', '', 'g')
            ORDER BY count(*) DESC, min(d.error) LIMIT page;
    END IF;
END $$;
-- +goose StatementEnd

-- How many documents of each of some connectors search finds, and how many are failed, of those that somebody sees. For the second the documents are read, up to
-- a number in all: it is null of a connector that has more than is left of that.
-- +goose StatementBegin
CREATE FUNCTION api.count_documents(connectors integer[], most integer) RETURNS TABLE (connector_id integer, documents bigint, failed bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    since bigint;
    rest bigint := least(most, 100000);
    looked bigint;
BEGIN
    FOR connector_id, since, documents IN   -- the smallest first
        SELECT i.id, i.version, i.documents FROM (
            SELECT u.id, s.version, (SELECT coalesce(sum(n.documents), 0)::bigint FROM document_counts n
                WHERE n.connector_id = u.id AND n.config_version >= s.version) AS documents
            FROM unnest(connectors) u(id) CROSS JOIN LATERAL api.seen_since(u.id) s WHERE s.version IS NOT NULL) i
        ORDER BY i.documents, i.id
    LOOP
        failed := NULL;
        IF documents <= rest THEN   -- of one that has more none is read
            SELECT count(*), count(*) FILTER (WHERE d.status = 'failed' AND d.config_version >= since) INTO looked, failed
            FROM (SELECT l.status, l.config_version FROM documents l WHERE l.connector_id = count_documents.connector_id
                ORDER BY l.source_id LIMIT rest + 1) d;
            rest := rest - looked;
        END IF;
        IF rest < 0 THEN
            failed := NULL;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Locks that runs have, and that runs wait for: for administrators; which connector has one for who sees that. waiting is not counted beyond 1,000.
CREATE VIEW api.locks AS
SELECT k.key, l.epoch, CASE WHEN c.id IS NOT NULL THEN l.run_id END AS run_id, c.id AS connector_id, c.name AS connector_name, l.acquired_at, l.expires_at,
    (SELECT count(*) FROM (SELECT FROM lock_waiters w WHERE w.key = k.key AND w.expires_at > (SELECT clock_timestamp()) LIMIT 1000) n)::integer AS waiting
FROM (SELECT h.key FROM resource_locks h UNION SELECT q.key FROM lock_waiters q WHERE q.expires_at > (SELECT clock_timestamp())) k
LEFT JOIN resource_locks l ON l.key = k.key
LEFT JOIN connectors c ON c.id = CASE WHEN api.sees_connector(l.connector_id) THEN l.connector_id END   -- asked of the locks' alone
WHERE api.is_admin();

-- The keys of a page of locks: the view works out all that it has before it is cut.
-- +goose StatementBegin
CREATE FUNCTION api.lock_keys(after text, page integer) RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH RECURSIVE waited AS (
        (SELECT w.key, 1 AS n FROM lock_waiters w WHERE w.key > after AND w.expires_at > (SELECT clock_timestamp()) ORDER BY w.key LIMIT 1)
        UNION ALL
        SELECT b.key, o.n + 1 FROM waited o CROSS JOIN LATERAL (SELECT w.key FROM lock_waiters w WHERE w.key > o.key AND w.expires_at > (SELECT clock_timestamp())
            ORDER BY w.key LIMIT 1) b WHERE o.n < page)
    SELECT array_agg(k.key) FROM (SELECT a.key FROM ((SELECT h.key FROM resource_locks h WHERE h.key > after ORDER BY h.key LIMIT page) UNION SELECT o.key FROM waited o) a
        WHERE api.is_admin() ORDER BY a.key LIMIT page) k
$$;
-- +goose StatementEnd

-- What owners may have: the viewer, and everybody without limits of their own (user 0).
CREATE VIEW api.limits AS
SELECT q.user_id, q.max_connectors, q.max_concurrent_syncs, q.max_documents, q.max_bytes FROM owner_quotas q
WHERE api.is_superadmin() OR (q.user_id IN (0, api.viewer_id()) AND api.viewer_id() IS NOT NULL);

-- What was done to a connector is for who sees it now, and saw it before and after. That of deleted ones is for who sees everything.
CREATE VIEW api.audit AS
SELECT a.* FROM audit a
WHERE api.is_superadmin()
    OR (api.sees(a.type, a.owner_id, a.scope, a.scope_id) AND (a.was_scope IS NULL OR api.sees(a.was_type, a.was_owner_id, a.was_scope, a.was_scope_id))
        AND api.sees_connector(a.connector_id));

-- Whether somebody saw a connector that is deleted, as it was at last.
-- +goose StatementBegin
CREATE FUNCTION api.saw_deleted(connector integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN coalesce((SELECT api.sees(a.type, a.owner_id, a.scope, a.scope_id) FROM audit a
        WHERE a.connector_id = connector AND a.action = 'connectors.delete' ORDER BY a.id DESC LIMIT 1), false);
END $$;
-- +goose StatementEnd

-- A number for each role, so that the lesser of two is found.
-- +goose StatementBegin
CREATE FUNCTION api.rank(role text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT array_position(ARRAY['user', 'admin', 'superadmin'], role) $$;
-- +goose StatementEnd

-- What a token may now, as a role: at most what its owner may, and the owners of the tokens that it was made through. Null: it does not count. It is over; or a token that
-- it was made through is over, or made a token for somebody else and may no longer do that: else the maker would see what they may not.
-- +goose StatementBegin
CREATE FUNCTION api.role_now(token integer) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN count(*) = max(c.links) AND bool_and(c.owner = c.made_for OR c.least = 3) THEN (ARRAY['user', 'admin', 'superadmin'])[min(c.least)] END
    FROM (SELECT cardinality(t.made_through) + 1 AS links, a.user_id AS owner, lead(a.user_id, 1, a.user_id) OVER (ORDER BY p.place) AS made_for,
            min(least(api.rank(a.role), api.rank(u.role))) OVER (ORDER BY p.place) AS least
        FROM access_tokens t CROSS JOIN unnest(t.made_through || t.id) WITH ORDINALITY p(id, place) JOIN access_tokens a ON a.id = p.id LEFT JOIN users u ON u.user_id = a.user_id
        WHERE t.id = token AND a.revoked_at IS NULL AND coalesce(a.expires_at > (SELECT clock_timestamp()), true)) c
$$;
-- +goose StatementEnd

-- Everybody sees their own tokens.
CREATE VIEW api.tokens AS
SELECT t.id, t.user_id, t.name, t.role, t.scopes, t.created_at, t.created_by, t.expires_at,
    least(t.revoked_at, (SELECT min(m.revoked_at) FROM access_tokens m WHERE m.id = ANY (t.made_through))) AS revoked_at, t.last_used_at,
    coalesce(api.role_now(t.id), '')::text AS role_now
FROM access_tokens t WHERE t.user_id = api.viewer_id() OR api.is_superadmin();

-- Whose token it is, and what it may do, as role_now says. No row: there is none of this secret, or it does not count.
-- +goose StatementBegin
CREATE FUNCTION api.authenticate(token integer, sha256 bytea, OUT token_id integer, OUT user_id integer, OUT role text, OUT scopes text[],
    OUT groups text[], OUT leads text[], OUT session_of integer) RETURNS SETOF record
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    t      access_tokens;
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO t FROM access_tokens k WHERE k.id = token AND k.secret_sha256 = sha256 AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > moment);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    role := api.role_now(t.id);
    IF role IS NULL THEN
        RETURN;
    END IF;
    IF coalesce(t.last_used_at < moment - interval '1 hour', true) THEN
        UPDATE access_tokens k SET last_used_at = moment WHERE k.id = (SELECT l.id FROM access_tokens l WHERE l.id = t.id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    token_id := t.id;
    user_id := t.user_id;
    scopes := t.scopes;
    session_of := CASE WHEN t.name = 'browser' THEN t.made_through[cardinality(t.made_through)] END;
    SELECT coalesce(array_agg(g.group_id), '{}'), coalesce(array_agg(g.group_id) FILTER (WHERE g.leads), '{}') INTO groups, leads
        FROM (SELECT * FROM group_members m WHERE m.user_id = t.user_id ORDER BY m.group_id LIMIT 1000) g;
    RETURN NEXT;
END $$;
-- +goose StatementEnd

-- Whom an issuer's subject is, with the role and the groups that are written down; of a role that the issuer has said counts the lesser. A subject that is not known is
-- the user whom the issuer names, or a new one, where that is allowed: most_new in a day. refused says why it is nobody: unlinked, removed, unknown, or many.
-- +goose StatementBegin
CREATE FUNCTION api.sign_in(of_issuer text, of_subject text, named integer, said_role text, most_new integer, request text,
    OUT user_id integer, OUT role text, OUT groups text[], OUT leads text[], OUT refused text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    known identities;
    made  integer;
    was   text := coalesce(current_setting('echomind.request', true), '');
BEGIN
    SELECT i.* INTO known FROM identities i WHERE i.issuer = of_issuer AND i.subject = of_subject;
    IF NOT FOUND AND named IS NULL AND most_new > 0 THEN
        PERFORM pg_advisory_xact_lock(hashtext('api.sign_in'));   -- so that the bound holds
        SELECT i.* INTO known FROM identities i WHERE i.issuer = of_issuer AND i.subject = of_subject;
        IF NOT FOUND THEN
            IF (SELECT count(*) FROM (SELECT FROM identities i WHERE i.made_at > (SELECT clock_timestamp() - interval '1 day') LIMIT most_new) n) = most_new THEN
                refused := 'many';
                RETURN;
            END IF;
            made := nextval('made_users');
            PERFORM set_config('echomind.request', jsonb_build_object('user_id', made, 'issuer', of_issuer, 'subject', of_subject, 'request_id', request)::text, true);
            INSERT INTO identities VALUES (of_issuer, of_subject, made, clock_timestamp()) RETURNING * INTO known;
            PERFORM set_config('echomind.request', was, true);
        END IF;
    END IF;
    IF known.issuer IS NOT NULL AND known.user_id IS NULL THEN
        refused := 'unlinked';
    ELSIF known.issuer IS NULL AND named IS NULL THEN
        refused := 'unknown';
    ELSIF EXISTS (SELECT FROM removed_users r WHERE r.user_id = coalesce(known.user_id, named)) THEN
        refused := 'removed';
    END IF;
    IF refused IS NOT NULL THEN
        RETURN;
    END IF;
    user_id := coalesce(known.user_id, named);
    role := (ARRAY['user', 'admin', 'superadmin'])[coalesce(least(api.rank(said_role), api.rank((SELECT u.role FROM users u WHERE u.user_id = sign_in.user_id))), 1)];
    SELECT coalesce(array_agg(g.group_id), '{}'), coalesce(array_agg(g.group_id) FILTER (WHERE g.leads), '{}') INTO groups, leads
        FROM (SELECT * FROM group_members m WHERE m.user_id = sign_in.user_id ORDER BY m.group_id LIMIT 1000) g;
END $$;
-- +goose StatementEnd

-- Refuses a token more for a user who has 100, or was made 1,000 in a day; sessions of browsers, which need no right to make tokens, are bounded by themselves. Those that are over with one that they were made through are said to be.
-- +goose StatementBegin
CREATE FUNCTION api.bound_tokens(owner integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    UPDATE access_tokens t SET revoked_at = o.revoked_at
        FROM (SELECT k.id, (SELECT min(m.revoked_at) FROM access_tokens m WHERE m.id = ANY (k.made_through)) AS revoked_at FROM access_tokens k
            WHERE k.user_id = owner AND k.revoked_at IS NULL AND coalesce(k.expires_at, 'infinity') > moment AND k.made_through <> '{}' LIMIT 200) o
        WHERE t.id = o.id AND t.revoked_at IS NULL AND o.revoked_at IS NOT NULL;
    IF (SELECT count(*) FROM (SELECT FROM access_tokens t WHERE t.user_id = owner AND t.revoked_at IS NULL AND coalesce(t.expires_at, 'infinity') > moment
            AND t.name IS DISTINCT FROM 'browser' LIMIT 100) n) = 100 THEN
        RAISE EXCEPTION 'user % has 100 tokens; revoke one first', owner USING ERRCODE = 'check_violation', CONSTRAINT = 'access_tokens_most';
    END IF;
    IF (SELECT t.created_at FROM access_tokens t WHERE t.user_id = owner AND t.name IS DISTINCT FROM 'browser' ORDER BY t.id DESC OFFSET 999 LIMIT 1) > moment - interval '1 day' THEN
        RAISE EXCEPTION '1,000 tokens were made for user % in a day; use those that there are', owner USING ERRCODE = 'check_violation', CONSTRAINT = 'access_tokens_daily';
    END IF;
END $$;
-- +goose StatementEnd

-- Makes room for a session of a browser more that is made through a token: of 20 the oldest ends. Refuses one after 200 in a day.
-- +goose StatementBegin
CREATE FUNCTION api.bound_sessions(parent integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    PERFORM FROM access_tokens t WHERE t.id = parent FOR NO KEY UPDATE;   -- one after another
    IF (SELECT s.created_at FROM access_tokens s WHERE s.made_through[cardinality(s.made_through)] = parent AND s.name = 'browser' ORDER BY s.id DESC OFFSET 199 LIMIT 1)
            > moment - interval '1 day' THEN
        RAISE EXCEPTION '200 sessions were begun with token % in a day; use one that there is', parent USING ERRCODE = 'check_violation', CONSTRAINT = 'access_tokens_sessions';
    END IF;
    -- Those that have not ended are among the last 200: they end after 12 hours.
    UPDATE access_tokens t SET revoked_at = moment WHERE t.revoked_at IS NULL AND t.id IN (SELECT l.id FROM (SELECT s.id, s.revoked_at, s.expires_at FROM access_tokens s
        WHERE s.made_through[cardinality(s.made_through)] = parent AND s.name = 'browser' ORDER BY s.id DESC LIMIT 200) l
        WHERE l.revoked_at IS NULL AND l.expires_at > moment ORDER BY l.id DESC OFFSET 19);
END $$;
-- +goose StatementEnd

-- Makes a token, of nobody's but the viewer's own, unless that is a superadmin's, and with no right that the viewer's does not have. Who has signed in without a token
-- makes one for themselves alone, of the role that is written down of them: a token would keep what their issuer may take back.
-- +goose StatementBegin
CREATE FUNCTION api.create_token(owner integer, label text, of_role text, of_scopes text[], sha256 bytea, until timestamptz) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    made   integer;
    viewer jsonb := api.viewer();
    owners text := (SELECT u.role FROM users u WHERE u.user_id = owner);
    parent access_tokens;
BEGIN
    IF (owner <> api.viewer_id() AND NOT api.is_superadmin()) OR viewer IS NULL OR api.rank(of_role) > api.rank(viewer ->> 'role')
        OR api.rank(of_role) > api.rank(owners)
        OR (viewer ->> 'issuer' IS NOT NULL AND (owner <> api.viewer_id() OR api.rank(of_role) > coalesce(api.rank(owners), 1))) OR NOT to_jsonb(of_scopes) <@ (viewer -> 'scopes') THEN
        RAISE EXCEPTION 'a token has at most the rights of its owner and of who makes it' USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'access_tokens_rights';
    END IF;
    IF viewer ->> 'issuer' IS NOT NULL THEN   -- the request may have begun before they were removed
        PERFORM pg_advisory_xact_lock(hashtext('echomind.removed_users'), owner);
        IF EXISTS (SELECT FROM removed_users r WHERE r.user_id = owner) THEN
            RAISE EXCEPTION 'user % was removed', owner USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'access_tokens_rights';
        END IF;
    END IF;
    IF until <= clock_timestamp() THEN
        RAISE EXCEPTION 'expires_at is over already' USING ERRCODE = 'check_violation', CONSTRAINT = 'access_tokens_expires_later';
    END IF;
    SELECT * INTO parent FROM access_tokens t WHERE t.id = (viewer ->> 'token_id')::integer;
    IF label = 'browser' AND parent.id IS NOT NULL THEN
        PERFORM api.bound_sessions(parent.id);
    ELSE
        PERFORM api.bound_tokens(owner);
    END IF;
    IF cardinality(parent.made_through) = 8 THEN
        RAISE EXCEPTION 'a token that was made through 8 others makes none' USING ERRCODE = 'check_violation', CONSTRAINT = 'access_tokens_made_depth';
    END IF;
    INSERT INTO access_tokens (user_id, name, role, scopes, secret_sha256, created_by, expires_at, made_through)
        VALUES (owner, label, of_role, of_scopes, sha256, (SELECT a.person FROM moves.actor() a), least(until, parent.expires_at),
            CASE WHEN parent.id IS NULL THEN '{}' ELSE parent.made_through || parent.id END) RETURNING id INTO made;
    RETURN made;
END $$;
-- +goose StatementEnd

-- Begins a browser's session by a link, which is used up by that: a token that was made through the link's. Null: there is no such link, it was used, it has ended, or
-- its token does not count any more.
-- +goose StatementBegin
CREATE FUNCTION api.open_link(link_sha256 bytea, session_sha256 bytea, request text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    parent access_tokens;
    linked integer;
    made   integer;
    moment timestamptz := clock_timestamp();
    was    text := coalesce(current_setting('echomind.request', true), '');
BEGIN
    DELETE FROM sign_in_links l WHERE l.code_sha256 = link_sha256 AND l.expires_at > moment RETURNING l.token_id INTO linked;
    IF NOT FOUND OR api.role_now(linked) IS NULL THEN
        RETURN NULL;
    END IF;
    DELETE FROM sign_in_links l WHERE l.code_sha256 IN (SELECT o.code_sha256 FROM sign_in_links o WHERE o.expires_at <= moment ORDER BY o.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED);
    SELECT * INTO parent FROM access_tokens t WHERE t.id = linked;
    PERFORM api.bound_sessions(parent.id);
    PERFORM set_config('echomind.request', jsonb_build_object('user_id', parent.user_id, 'token_id', parent.id, 'request_id', request)::text, true);
    INSERT INTO access_tokens (user_id, name, role, scopes, secret_sha256, created_by, expires_at, made_through)
        VALUES (parent.user_id, 'browser', parent.role, parent.scopes, session_sha256, (SELECT a.person FROM moves.actor() a), least(moment + interval '12 hours', parent.expires_at),
            parent.made_through || parent.id) RETURNING id INTO made;
    PERFORM set_config('echomind.request', was, true);
    RETURN made;
END $$;
-- +goose StatementEnd

-- Ends the token that the viewer is signed in with, whatever its scopes are.
-- +goose StatementBegin
CREATE FUNCTION api.end_session() RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE access_tokens t SET revoked_at = clock_timestamp()
    WHERE t.id = (api.viewer() ->> 'token_id')::integer AND t.user_id = api.viewer_id() AND t.name = 'browser' AND t.revoked_at IS NULL
$$;
-- +goose StatementEnd

-- When the run ended that is so many before a moment, so that a look at the ledger is bounded; null: there are not so many. It reads an index alone.
-- +goose StatementBegin
CREATE FUNCTION api.runs_back(before timestamptz, back integer) RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.completed_at FROM runs r WHERE r.completed_at < before ORDER BY r.completed_at DESC OFFSET least(back, 100000) LIMIT 1
$$;
-- +goose StatementEnd

-- The same of one connector, and of when its runs began.
-- +goose StatementBegin
CREATE FUNCTION api.runs_back_of(connector integer, before timestamptz, back integer) RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.started_at FROM runs r WHERE r.connector_id = connector AND r.started_at < before AND api.sees_connector(connector)
    ORDER BY r.started_at DESC OFFSET least(back, 100000) LIMIT 1
$$;
-- +goose StatementEnd

-- The entry of a connector's audit that is so many before another one, so that a look for those of when somebody saw it is bounded; null: there are not so many.
-- It reads an index alone.
-- +goose StatementBegin
CREATE FUNCTION api.audit_back(connector integer, behind bigint, back integer) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.id FROM audit a WHERE a.connector_id = connector AND a.id < behind ORDER BY a.id DESC OFFSET least(back, 100000) LIMIT 1
$$;
-- +goose StatementEnd

-- The connector, and the open run, that is so many behind another by its number, so that a look for what somebody sees among them is bounded;
-- null: there are not so many. They read the primary key alone.
-- +goose StatementBegin
CREATE FUNCTION api.connectors_through(after integer, look integer) RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.id FROM connectors c WHERE c.id > after ORDER BY c.id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION api.open_runs_through(after uuid, look integer) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.id FROM open_runs r WHERE r.id > after ORDER BY r.id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd

-- What the places in page tokens are sealed with: all replicas have it.
-- +goose StatementBegin
CREATE FUNCTION api.page_key() RETURNS bytea
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT sha256(convert_to('echomind page tokens', 'UTF8') || k.key) FROM audit_key k
$$;
-- +goose StatementEnd

-- Begins a request with an Idempotency-Key. again: it was done already, and done is its outcome. A key is a user's, and good for a day; a user's last 10,000
-- keys, or some more, are kept. The same request at the same time waits for the first one.
-- +goose StatementBegin
CREATE FUNCTION api.begin_request(request_key text, request_asked bytea, OUT again boolean, OUT done text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    viewer integer := api.viewer_id();
    before request_keys;
BEGIN
    INSERT INTO request_keys AS k (user_id, key, asked) VALUES (viewer, request_key, request_asked)
    ON CONFLICT (user_id, key) DO UPDATE SET at = clock_timestamp(), asked = EXCLUDED.asked, done = '' WHERE k.at < clock_timestamp() - interval '24 hours';
    again := NOT FOUND;
    IF again THEN
        SELECT k.* INTO before FROM request_keys k WHERE k.user_id = viewer AND k.key = request_key;
        IF before.asked IS DISTINCT FROM request_asked THEN
            RAISE EXCEPTION 'the key is that of another request' USING ERRCODE = 'check_violation', CONSTRAINT = 'request_keys_same';
        END IF;
        done := before.done;
    ELSIF random() < 0.01 THEN
        DELETE FROM request_keys k WHERE (k.user_id, k.key) IN (SELECT o.user_id, o.key FROM request_keys o WHERE o.user_id = viewer ORDER BY o.at DESC OFFSET 10000 LIMIT 1000);
    END IF;
END $$;
-- +goose StatementEnd

-- Says what has come of it, in the transaction that did it.
-- +goose StatementBegin
CREATE FUNCTION api.end_request(request_key text, request_done text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE request_keys k SET done = request_done WHERE k.user_id = api.viewer_id() AND k.key = request_key
$$;
-- +goose StatementEnd

-- Ends a token that the viewer sees, and that may no more than the viewer's. False: it is over already. Null: the viewer sees none.
-- +goose StatementBegin
CREATE FUNCTION api.revoke_token(token integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM api.tokens t WHERE t.id = token) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM access_tokens t WHERE t.id = token AND (api.rank(api.role_now(t.id)) > api.rank(api.viewer() ->> 'role') OR NOT to_jsonb(t.scopes) <@ (api.viewer() -> 'scopes'))) THEN
        RAISE EXCEPTION 'a token ends none that may more' USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'access_tokens_ends';
    END IF;
    UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = token AND revoked_at IS NULL;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- Makes the link of a connector that the viewer may change, in place of one that there is. False: they may change none of this number.
-- +goose StatementBegin
CREATE FUNCTION api.make_badge(connector integer, sha256 bytea) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO badges AS b (connector_id, added_version, secret_sha256)
    SELECT c.id, c.added_version, make_badge.sha256 FROM connectors c WHERE c.id = connector AND EXISTS (SELECT FROM api.changeable k WHERE k.id = connector)
    ON CONFLICT (connector_id) DO UPDATE SET added_version = EXCLUDED.added_version, secret_sha256 = EXCLUDED.secret_sha256, made_at = EXCLUDED.made_at;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- Ends it. False: there is none, or none that the viewer may end.
-- +goose StatementBegin
CREATE FUNCTION api.revoke_badge(connector integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM badges b WHERE b.connector_id = connector AND EXISTS (SELECT FROM api.changeable k WHERE k.id = connector);
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- What the freshness of a link's connector is concluded from, for everybody. No row: there is no such link.
-- +goose StatementBegin
CREATE FUNCTION api.badge(sha256 bytea) RETURNS TABLE (now timestamptz, fresh_within_minutes integer, last_sync_at timestamptz, synced_version bigint, config_version bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT clock_timestamp(), c.fresh_within_minutes, c.last_sync_at, c.synced_version, c.config_version
    FROM badges b JOIN connectors c ON c.id = b.connector_id AND c.added_version = b.added_version WHERE b.secret_sha256 = badge.sha256
$$;
-- +goose StatementEnd

-- Has what a dead letter is about fetched again, for a superadmin: its connector is due, and its document, if it names one, has no token. Null: there is no such connector.
-- +goose StatementBegin
CREATE FUNCTION api.replay_letter(letter bigint, letter_subject text, connector integer, source_ids text[]) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    asked timestamptz;
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'dead letters are for superadmins' USING ERRCODE = 'insufficient_privilege';
    END IF;
    asked := moves.trigger_sync(connector);
    IF asked IS NOT NULL THEN
        UPDATE documents d SET version_token = '' WHERE d.connector_id = connector AND d.source_id = ANY (source_ids) AND d.status IN ('stored', 'failed');
        PERFORM moves.note_change('deadletters.replay', letter::text, moves.fingerprinted(jsonb_build_object('subject', letter_subject, 'source_ids', source_ids)), NULL, c)
        FROM connectors c WHERE c.id = connector;
    END IF;
    RETURN asked;
END $$;
-- +goose StatementEnd

-- Writes down that a superadmin removes a dead letter, which the broker does next.
-- +goose StatementBegin
CREATE FUNCTION api.drop_letter(letter bigint, letter_subject text, connector integer, source_ids text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    of connectors;
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'dead letters are for superadmins' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT c.* INTO of FROM connectors c WHERE c.id = connector;
    PERFORM moves.note_change('deadletters.drop', letter::text, moves.fingerprinted(jsonb_build_object('subject', letter_subject, 'source_ids', source_ids)), NULL, of);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP SCHEMA api CASCADE;
DROP TRIGGER concurrency_limits_audit ON concurrency_limits;
DROP TRIGGER owner_quotas_audit ON owner_quotas;
DROP TRIGGER calendars_audit ON calendars;
DROP TRIGGER conditions_audit ON conditions;
DROP TRIGGER connector_types_audit ON connector_types;
DROP TRIGGER connectors_by_changed ON connectors;
DROP TRIGGER connectors_by_added ON connectors;
DROP TRIGGER connectors_noted_triggered ON connectors;
DROP TRIGGER connectors_noted_changed ON connectors;
DROP TRIGGER connectors_noted ON connectors;
DROP TABLE audit_key;
DROP TABLE request_keys;
DROP TABLE audit;
DROP TABLE sign_in_links;
DROP TABLE access_tokens;
DROP TABLE group_members;
DROP TABLE identities;
DROP SEQUENCE made_users;
DROP TABLE removed_users;
DROP TABLE users;
DROP TRIGGER connectors_gone ON connectors;
DROP TRIGGER connectors_given ON connectors;
DROP FUNCTION connectors_given();
DROP TRIGGER connectors_keys_changed ON connectors;
DROP TRIGGER connectors_keys_named ON connectors;
DROP FUNCTION connectors_name_keys();
DROP TABLE badges;
DROP TABLE connector_handovers;
DROP TRIGGER connector_secrets_noted ON connector_secrets;
DROP FUNCTION connector_secrets_audit();
DROP FUNCTION access_tokens_stay_revoked();
DROP FUNCTION users_revoke_tokens();
DROP FUNCTION identities_link();
DROP FUNCTION removed_users_revoke();
DROP FUNCTION audit_refuse();
DROP FUNCTION audit_row();
DROP FUNCTION connectors_by();
DROP FUNCTION connectors_audit();
DROP FUNCTION moves.differing(jsonb, jsonb);
DROP FUNCTION moves.kept_config(jsonb, jsonb);
DROP FUNCTION moves.fingerprinted(jsonb, boolean);
DROP FUNCTION moves.is_secret_text(text);
DROP FUNCTION moves.is_secret_in(jsonb, text);
DROP FUNCTION moves.is_secret_name(text);
DROP FUNCTION moves.fingerprinted_url(text);
DROP FUNCTION moves.fingerprint(text);
DROP FUNCTION moves.note_change(text, text, jsonb, jsonb, connectors, connectors);
DROP FUNCTION moves.actor();
