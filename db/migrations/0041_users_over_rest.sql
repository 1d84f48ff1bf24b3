-- +goose Up
-- expand
-- What superadmins write of users through services/api: the role, the groups, and which user somebody is whom an issuer signs in. Entries of the audit come from the tables' triggers.

-- One request at a time writes of a user: the version that If-Match names is of what stands.
-- +goose StatementBegin
CREATE FUNCTION api.lock_user(of_user integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'superadmins alone write what users may do' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('api.user'), of_user);
END $$;
-- +goose StatementEnd

-- Sets what is given of a user; no role: it stays.
-- +goose StatementBegin
CREATE FUNCTION api.set_user(of_user integer, new_role text, member text[], lead text[], leave text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM api.lock_user(of_user);
    IF new_role IS NOT NULL THEN
        INSERT INTO users AS u (user_id, role) VALUES (of_user, new_role) ON CONFLICT (user_id) DO UPDATE SET role = EXCLUDED.role WHERE u.role <> EXCLUDED.role;
    END IF;
    INSERT INTO group_members AS m (user_id, group_id, leads)
        SELECT of_user, g.id, bool_or(g.leads) FROM (SELECT unnest(member) AS id, false AS leads UNION ALL SELECT unnest(lead), true) g GROUP BY g.id
        ON CONFLICT (user_id, group_id) DO UPDATE SET leads = EXCLUDED.leads WHERE m.leads <> EXCLUDED.leads;
    DELETE FROM group_members m WHERE m.user_id = of_user AND m.group_id = ANY (leave);
    IF cardinality(member) + cardinality(lead) > 0 AND (SELECT count(*) FROM (SELECT FROM group_members m WHERE m.user_id = of_user LIMIT 1001) n) > 1000 THEN
        RAISE EXCEPTION 'user % is in 1,000 groups, and no more count', of_user USING ERRCODE = 'check_violation', CONSTRAINT = 'group_members_most';
    END IF;
END $$;
-- +goose StatementEnd

-- Revokes the tokens of a user, forgets their role and groups, and has no issuer sign them in.
-- +goose StatementBegin
CREATE FUNCTION api.remove_user(of_user integer, OUT tokens_revoked bigint, OUT unlinked bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM api.lock_user(of_user);
    UPDATE access_tokens t SET revoked_at = clock_timestamp()
        WHERE t.user_id = of_user AND t.revoked_at IS NULL AND coalesce(t.expires_at, 'infinity') > (SELECT clock_timestamp());
    GET DIAGNOSTICS tokens_revoked = ROW_COUNT;
    DELETE FROM group_members m WHERE m.user_id = of_user;
    UPDATE identities i SET user_id = NULL WHERE i.user_id = of_user;
    GET DIAGNOSTICS unlinked = ROW_COUNT;
    DELETE FROM users u WHERE u.user_id = of_user;
    INSERT INTO removed_users VALUES (of_user) ON CONFLICT DO NOTHING;
END $$;
-- +goose StatementEnd

-- Says which user a subject of an issuer is; null: nobody any more, of a subject that is known. It says whether there is such a subject.
-- +goose StatementBegin
CREATE FUNCTION api.link_identity(of_issuer text, of_subject text, of_user integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'superadmins alone say who users are' USING ERRCODE = 'insufficient_privilege';
    ELSIF of_user IS NULL THEN
        UPDATE identities i SET user_id = NULL WHERE i.issuer = of_issuer AND i.subject = of_subject;
        RETURN FOUND;
    END IF;
    PERFORM api.lock_user(of_user);   -- a removal at the same time unlinks it, or is taken back
    DELETE FROM removed_users r WHERE r.user_id = of_user;   -- also of a link that there is, whose user was removed by another way
    INSERT INTO identities AS i (issuer, subject, user_id) VALUES (of_issuer, of_subject, of_user)
        ON CONFLICT (issuer, subject) DO UPDATE SET user_id = EXCLUDED.user_id, made_at = NULL WHERE i.user_id IS DISTINCT FROM EXCLUDED.user_id;
    RETURN true;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION api.lock_user(integer), api.set_user(integer, text, text[], text[], text[]), api.remove_user(integer), api.link_identity(text, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.lock_user(integer), api.set_user(integer, text, text[], text[], text[]), api.remove_user(integer), api.link_identity(text, text, integer) TO echomind_api;

-- +goose Down
DROP FUNCTION api.link_identity(text, text, integer);
DROP FUNCTION api.remove_user(integer);
DROP FUNCTION api.set_user(integer, text, text[], text[], text[]);
DROP FUNCTION api.lock_user(integer);
