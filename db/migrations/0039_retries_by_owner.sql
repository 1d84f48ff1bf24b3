-- +goose Up
-- expand
-- Connectors that other settings have refused become due from owner to owner, a few of each, and owners who have their share of a type's places hold nobody else's up: docs/reliability.md.

-- refused_connectors_reach and refused_connectors_retried stay for retry_refused, which workers of releases before this one call: without them each call sorts all that was refused.
-- retry_by_owner: what other settings refused, by type, from owner to owner.
CREATE INDEX refused_connectors_reach_by_owner ON refused_connectors (type, reach, user_id, connector_id) WHERE retried_at IS NULL;
-- retry_owners: who has not begun yet, owner by owner.
CREATE INDEX refused_connectors_retried_by_owner ON refused_connectors (type, user_id, connector_id) WHERE retried_at IS NOT NULL;

-- How many more connectors of a type may become due by other settings, where most may wait for their sync to begin, and which owners have how many that wait; those that have begun wait no more.
-- While the type waits for places, one that is not claimed counts for its owner alone where that owner holds a place: it may be that the owner is to hold no more. It looks at 1,000.
-- +goose StatementBegin
CREATE FUNCTION moves.retry_owners(of_type text, most integer, OUT room integer, OUT owners integer[], OUT waiting integer[])
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    looks CONSTANT integer := 1000;
    waits boolean := coalesce((SELECT t.waits FROM waiting_types t WHERE t.name = of_type), false);
    seen  integer;
    begun integer[];
BEGIN
    WITH looked AS MATERIALIZED (
        SELECT r.connector_id, r.user_id, coalesce(c.status = 'PENDING', false) AS claimed,
            -- One that a window or a full key keeps is not due: others go on.
            coalesce(c.status = 'PENDING' OR (c.status = 'ERROR' AND c.due_at <= clock_timestamp() AND c.over_at = r.over_at), false) AS stands
        FROM refused_connectors r LEFT JOIN connectors c ON c.id = r.connector_id
        WHERE r.type = of_type AND r.retried_at IS NOT NULL ORDER BY r.user_id, r.connector_id LIMIT looks),
    owned AS (SELECT l.user_id, count(*)::integer AS n, (count(*) FILTER (WHERE l.claimed))::integer AS claimed FROM looked l WHERE l.stands GROUP BY l.user_id)
    SELECT (SELECT count(*) FROM looked), ARRAY(SELECT l.connector_id FROM looked l WHERE NOT l.stands),
        most - coalesce(sum(CASE WHEN waits AND EXISTS (SELECT FROM open_runs o WHERE o.type = of_type AND o.user_id = w.user_id) THEN w.claimed ELSE w.n END), 0),
        coalesce(array_agg(w.user_id), '{}'), coalesce(array_agg(w.n), '{}')
    INTO seen, begun, room, owners, waiting FROM owned w;
    UPDATE refused_connectors r SET retried_at = NULL WHERE r.connector_id IN (SELECT l.connector_id FROM refused_connectors l
        WHERE l.connector_id = ANY (begun) AND l.retried_at IS NOT NULL FOR UPDATE SKIP LOCKED);
    room := CASE WHEN seen < looks THEN greatest(0, room) ELSE 0 END;
END $$;
-- +goose StatementEnd

-- Makes connectors due again that other settings of their service have refused, and those of by_reach have not: each once. One call
-- looks at a page, from a place on and round to it again, from owner to owner. It leaves at most `most` of the type waiting for their sync to begin, and a tenth of that of an owner, so that
-- others stand behind no more. It waits for nobody's row. It says how many are due by it, and where the next call goes on; '' is the beginning: it has seen all.
-- +goose StatementBegin
CREATE FUNCTION moves.retry_by_owner(of_type text, by_reach text, page integer, most integer, after_reach text DEFAULT '', after_id integer DEFAULT 0, after_owner integer DEFAULT 0,
    OUT retried integer, OUT next_reach text, OUT next_owner integer, OUT next_id integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '1s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    last     CONSTANT integer := 2147483647;   -- behind all of an owner
    each     CONSTANT integer := greatest(1, most / 10);
    moment   timestamptz := clock_timestamp();
    is_round boolean := false;   -- it is before its place again
    at       integer;   -- in owners, and in how many of each wait
    owners   integer[];
    waiting  integer[];
    room     integer;
    h        refused_connectors;
BEGIN
    IF of_type IS NULL OR coalesce(by_reach, '') !~ '^[0-9a-f]{1,64}$' OR coalesce(page, 0) NOT BETWEEN 1 AND 10000 OR coalesce(most, 0) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'retry_by_owner: type, by_reach (a hash), page (1 to 10000) and most (1 to 1000) are needed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    retried := 0;
    SELECT after_reach, after_owner, after_id INTO next_reach, next_owner, next_id;
    IF NOT pg_try_advisory_xact_lock(hashtext('echomind.refused'), hashtext(of_type)) THEN   -- two at once would count the same
        RETURN;
    END IF;
    SELECT r.room, r.owners, r.waiting INTO room, owners, waiting FROM moves.retry_owners(of_type, most) r;
    <<looks>>
    WHILE room > 0 AND page > 0 LOOP
        FOR h IN SELECT r.* FROM refused_connectors r WHERE r.type = of_type AND r.retried_at IS NULL AND (r.reach, r.user_id, r.connector_id) > (next_reach, next_owner, next_id)
            ORDER BY r.reach, r.user_id, r.connector_id LIMIT page
        LOOP
            EXIT looks WHEN is_round AND (h.reach, h.user_id, h.connector_id) > (after_reach, after_owner, after_id);
            page := page - 1;
            SELECT h.reach, h.user_id, h.connector_id INTO next_reach, next_owner, next_id;
            IF h.reach = by_reach THEN   -- what these settings have refused last is passed over at once, however much that is
                SELECT last, last INTO next_owner, next_id;
                EXIT;
            END IF;
            at := array_position(owners, h.user_id);
            IF at IS NULL THEN
                SELECT owners || h.user_id, waiting || 0, cardinality(owners) + 1 INTO owners, waiting, at;
            END IF;
            IF waiting[at] < each AND NOT by_reach = ANY (h.refused_by)
                AND (h.not_before <= moment OR NOT (by_reach = ANY (h.tried_by) OR cardinality(h.tried_by) = 16)) AND moves.retry_one(h, by_reach) THEN
                retried := retried + 1;
                room := room - 1;
                waiting[at] := waiting[at] + 1;
            END IF;
            IF waiting[at] >= each OR room = 0 THEN   -- it is the next owner's turn
                next_id := last;
                EXIT;
            END IF;
        END LOOP;
        CONTINUE WHEN FOUND;
        EXIT WHEN is_round OR after_reach = '';
        is_round := true;
        SELECT '', 0, 0 INTO next_reach, next_owner, next_id;
    END LOOP;
    IF page > 0 AND room > 0 AND retried = 0 THEN
        SELECT '', 0, 0 INTO next_reach, next_owner, next_id;
    ELSIF retried > 0 THEN
        PERFORM pg_notify('connectors_due', of_type);
    END IF;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION moves.retry_owners(text, integer), moves.retry_by_owner(text, text, integer, integer, text, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.retry_by_owner(text, text, integer, integer, text, integer, integer) TO echomind_worker;

-- +goose Down
DROP FUNCTION moves.retry_by_owner(text, text, integer, integer, text, integer, integer);
DROP FUNCTION moves.retry_owners(text, integer);
DROP INDEX refused_connectors_retried_by_owner;
DROP INDEX refused_connectors_reach_by_owner;
