-- +goose Up
-- The runs that are under way: one row from the claim to the verdict. Everything that changes often is here, so that the
-- ledger behind it is only appended to, and every look reads what is in flight and nothing else.
CREATE TABLE open_runs (
    -- On the wire: chunking_session.
    id                   uuid PRIMARY KEY,
    -- No foreign key: a run outlives its connector.
    connector_id         integer NOT NULL CONSTRAINT open_runs_one_per_connector UNIQUE,
    type                 text NOT NULL,
    -- Whose place it holds; 0 = the system's. A change of owner ends the run.
    user_id              integer NOT NULL,
    trigger              text NOT NULL
        CONSTRAINT open_runs_trigger_known CHECK (trigger IN
            ('new', 'schedule', 'manual', 'retry', 'release', 'wait', 'changed', 'rescue', 'lost', 'upstream')),
    -- The due time this run answers.
    slot                 timestamptz
        CONSTRAINT open_runs_slot_scheduled CHECK (slot IS NULL OR trigger = 'schedule'),
    due_at               timestamptz NOT NULL,
    started_at           timestamptz NOT NULL,
    config_version       bigint NOT NULL,
    -- The last time its message was published, and how often it was.
    dispatched_at        timestamptz NOT NULL,
    dispatches           integer NOT NULL DEFAULT 1,
    -- Whether the broker has acknowledged the last of these, as far as that is written down: from the third on. Or why it has not.
    acknowledged         boolean NOT NULL DEFAULT false,
    publish_error        text,
    -- How many that it has acknowledged have left the stream, and nobody picked the run up.
    not_taken            integer NOT NULL DEFAULT 0,
    trigger_requested_at timestamptz,
    -- When the user allowed this run to delete many documents at once; null where nobody did. Where another run is to
    -- do it, the connector gets it back.
    deletions_allowed_at timestamptz,
    -- What the trigger of a job gave it over the configuration.
    parameters           jsonb,
    picked_up_at         timestamptz,
    -- The fence: minted at each pick-up, carried by every message and every write of the run.
    try_id               uuid,
    -- Who holds the lease; null while it waits, when the worker is done, and for a subscriber that keeps none.
    worker_id            uuid,
    -- Whether the loss of its worker is not the first in a row, or its connector may not fail once, as of the pick-up: semantic
    -- fails it, and the scheduler does not claim it again. In the index of both looks, so that neither reads the other's.
    fails_if_lost        boolean NOT NULL DEFAULT false,
    fetched_at           timestamptz,
    -- Sequence of sync completed in the document stream, or of the last message of a run that was cut; set when the worker is done.
    drain_seq            bigint,
    -- Why the worker has cut the run. What it has sent is stored, and then the run ends: postponed, where waits_until says until when,
    -- else failed.
    cut                  text,
    -- How it fails then: too_long or transient. Null where it is postponed.
    cut_kind             text,
    -- N of the try, once sync completed or the cut has said it, and how many of them are stored.
    total                bigint,
    stored               bigint NOT NULL DEFAULT 0,
    -- stored = total. A column of its own, so that counting does not touch an index.
    whole                boolean NOT NULL DEFAULT false,
    -- The number of the last checkpoint whose state became the connector's: every message up to it is stored.
    checkpoint_no        bigint NOT NULL DEFAULT 0,
    -- Whether a checkpoint has brought the connector further than the run found it.
    advanced             boolean NOT NULL DEFAULT false,
    -- How far the stored messages are known to have no gap, and none that the cursor may not pass. It trails what is stored.
    counted_through      bigint NOT NULL DEFAULT 0,
    -- How many of the stored messages are parts whose document is neither whole nor known to have failed: the cursor stays.
    waiting              bigint NOT NULL DEFAULT 0,
    -- How many of the stored messages carry no document of their own: checkpoints, and documents that were only seen.
    notes                bigint NOT NULL DEFAULT 0,
    -- How many given-up messages do not tell whose document they carried: the cursor stays.
    unnamed              bigint NOT NULL DEFAULT 0,
    documents_processed  bigint NOT NULL DEFAULT 0,
    documents_failed     bigint NOT NULL DEFAULT 0,
    documents_deleted    bigint NOT NULL DEFAULT 0,
    documents_unchanged  bigint NOT NULL DEFAULT 0,
    chunks_stored        bigint NOT NULL DEFAULT 0,
    listing_whole        boolean,
    new_state            jsonb
        CONSTRAINT open_runs_new_state_size CHECK (octet_length(new_state::text) <= 65536)
        CONSTRAINT open_runs_new_state_depth CHECK (NOT jsonb_path_exists(new_state, '$.**{31}')),
    reason               text,
    -- The last long wait that the source asked for while the run goes on: until when, and who asked. Nobody clears it before the run
    -- drains: it is over when its time has passed. Of a run that was cut: when the next is due.
    waits_until          timestamptz,
    wait_message         text,
    -- Whether it has asked for a lock of a scarce thing: what ends it frees those.
    has_locks            boolean NOT NULL DEFAULT false,
    -- Whether it has places of concurrency keys: they go with the row, see open_runs_leave_keys.
    has_keys             boolean NOT NULL DEFAULT false,
    -- The last hundred of its try's questions for locks that it has given up: such a question is given nothing, should it arrive later.
    freed_asks           bigint[],
    -- Which providers it has used, and why not the ones before; which locks people took from it: the last ten, as docs/states.md says.
    resources            jsonb,
    -- What a run says of itself: a job how much of its work is done, and in words; what its user should know; and what came of a job.
    progress_done        bigint,
    progress_total       bigint,
    progress_text        text,
    warnings             text[],
    result               jsonb,

    CONSTRAINT open_runs_stored_range CHECK (stored >= 0 AND (total IS NULL OR stored <= total)),
    CONSTRAINT open_runs_whole CHECK (whole = coalesce(stored = total, false)),
    CONSTRAINT open_runs_checkpoint_stored CHECK (checkpoint_no BETWEEN 0 AND stored),
    CONSTRAINT open_runs_counted_stored CHECK (counted_through BETWEEN 0 AND stored),
    CONSTRAINT open_runs_waiting_range CHECK (waiting BETWEEN 0 AND stored),
    CONSTRAINT open_runs_cut_drains CHECK (cut IS NULL OR (drain_seq IS NOT NULL AND total IS NOT NULL)),
    CONSTRAINT open_runs_notes_range CHECK (notes BETWEEN 0 AND stored),
    CONSTRAINT open_runs_picked_up_by_a_try CHECK ((picked_up_at IS NULL) = (try_id IS NULL))
) WITH (fillfactor = 60);

-- The concurrency keys that open runs have, with a limit or without: a limit that comes counts them, too. A row is there as long as its open run,
-- whatever deletes that. A foreign key would look here for each run that ends, also where nothing has keys.
CREATE TABLE key_places (
    key          text NOT NULL,
    run_id       uuid NOT NULL,
    connector_id integer NOT NULL,
    user_id      integer NOT NULL,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (key, run_id)
);
-- open_runs_leave_keys: the places that a run leaves.
CREATE INDEX key_places_run ON key_places (run_id);
-- The scheduler is told of a place that somebody waits for. Nothing depends on it: its looks come to each key by themselves.
-- +goose StatementBegin
CREATE FUNCTION open_runs_leave_keys() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    place text;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM key_places;
        RETURN NULL;
    END IF;
    FOR place IN DELETE FROM key_places p WHERE p.run_id = OLD.id RETURNING p.key LOOP
        IF EXISTS (SELECT FROM key_waiters w WHERE w.key = place) THEN
            PERFORM pg_notify('connectors_due', 'key:' || place);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER open_runs_leave_keys AFTER DELETE ON open_runs
    FOR EACH ROW WHEN (OLD.has_keys) EXECUTE FUNCTION open_runs_leave_keys();
CREATE TRIGGER open_runs_leave_all_keys AFTER TRUNCATE ON open_runs FOR EACH STATEMENT EXECUTE FUNCTION open_runs_leave_keys();

-- redispatch: what waits to be picked up, the longest dispatched first.
CREATE INDEX open_runs_pending ON open_runs (type, dispatched_at) WHERE picked_up_at IS NULL;
-- fail_not_taken: runs whose message the broker took ten times, and nobody picked them up. Almost no run enters it.
CREATE INDEX open_runs_not_taken ON open_runs (id) WHERE picked_up_at IS NULL AND not_taken >= 10;
-- lock_due: how many of a capped type are in flight, whatever else is. lock_by_owner: how many of them are an owner's.
CREATE INDEX open_runs_by_type ON open_runs (type, user_id);
-- rescue, abandon: the runs of a lost worker.
CREATE INDEX open_runs_worker ON open_runs (worker_id, fails_if_lost) WHERE worker_id IS NOT NULL;
-- rescue, abandon: runs of subscribers that keep no lease.
CREATE INDEX open_runs_unleased ON open_runs (fails_if_lost, picked_up_at)
    WHERE picked_up_at IS NOT NULL AND worker_id IS NULL AND drain_seq IS NULL;
-- fail_lost_in_transit: runs whose worker is done, in the order of the stream.
CREATE INDEX open_runs_draining ON open_runs (drain_seq) WHERE drain_seq IS NOT NULL;
-- WholeRuns: runs whose documents are all stored, and whose completer died.
CREATE INDEX open_runs_whole_runs ON open_runs (id) WHERE whole;

-- Worker processes that hold leases. One heartbeat keeps all of a process's runs.
CREATE TABLE workers (
    id         uuid PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    -- Counts the heartbeats: who looks twice sees whether the worker lives, whatever the clock says. No index but the key: each
    -- heartbeat would have to write it.
    beats      bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 60);

-- Locks of scarce things that runs hold ("ollama:global"), one row while it is held. What ends a run from outside leaves its rows to its worker, or to
-- their time. The epochs of a key only grow, whatever became of the rows before:
-- they come from one sequence that follows the clock, and are taken in the key's turn.
CREATE SEQUENCE lock_epochs;
CREATE TABLE resource_locks (
    key          text PRIMARY KEY
        CONSTRAINT resource_locks_key_form CHECK (key ~ '^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$'),
    epoch        bigint NOT NULL,
    run_id       uuid NOT NULL,
    connector_id integer NOT NULL,
    ttl          interval NOT NULL,
    acquired_at  timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    -- Whose it is: it gives it back also once its run is over.
    try_id       uuid NOT NULL,
    -- Who has taken it from the run: it is renewed no more.
    released_by  text,
    -- The last of the run's questions that it was given to.
    ask          bigint NOT NULL
) WITH (fillfactor = 60);
-- free_locks, acquire_lock: what a run holds.
CREATE INDEX resource_locks_run ON resource_locks (run_id);

-- Runs that wait for a lock, in the order in which they came. One that does not ask again in time loses its place.
CREATE TABLE lock_waiters (
    no           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key          text NOT NULL,
    run_id       uuid NOT NULL,
    connector_id integer NOT NULL,
    since        timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    CONSTRAINT lock_waiters_once UNIQUE (run_id, key)
) WITH (fillfactor = 60);
-- acquire_lock: whose turn it is.
CREATE INDEX lock_waiters_turn ON lock_waiters (key, no);

-- The ledger: what came of each run and of each slot. It is appended to, by week, and dropped by week.
CREATE TABLE runs (
    id                   uuid NOT NULL,
    connector_id         integer NOT NULL,
    type                 text NOT NULL,
    trigger              text NOT NULL,
    -- Of slots that no run answers, missed or skipped by a policy: the first of missed_count up to slot_last.
    slot                 timestamptz,
    slot_last            timestamptz,
    missed_count         integer,
    due_at               timestamptz NOT NULL,
    started_at           timestamptz NOT NULL,
    config_version       bigint NOT NULL,
    dispatches           integer NOT NULL DEFAULT 0,
    trigger_requested_at timestamptz,
    deletions_allowed_at timestamptz,
    parameters           jsonb,
    picked_up_at         timestamptz,
    try_id               uuid,
    fetched_at           timestamptz,
    completed_at         timestamptz NOT NULL,
    status               text NOT NULL
        CONSTRAINT runs_verdict_known CHECK (status IN ('completed', 'skipped', 'failed', 'superseded', 'missed')),
    reason               text,
    error_message        text,
    -- Of a run that was postponed: when the next try was to be.
    waits_until          timestamptz,
    resources            jsonb,
    total                bigint,
    stored               bigint NOT NULL DEFAULT 0,
    checkpoint_no        bigint NOT NULL DEFAULT 0,
    notes                bigint NOT NULL DEFAULT 0,
    documents_processed  bigint NOT NULL DEFAULT 0,
    documents_failed     bigint NOT NULL DEFAULT 0,
    documents_deleted    bigint NOT NULL DEFAULT 0,
    documents_unchanged  bigint NOT NULL DEFAULT 0,
    chunks_stored        bigint NOT NULL DEFAULT 0,
    listing_whole        boolean,
    -- Of a job, as open_runs has them.
    progress_done        bigint,
    progress_total       bigint,
    progress_text        text,
    warnings             text[],
    result               jsonb,
    CONSTRAINT runs_missed_counted CHECK (CASE status WHEN 'missed' THEN missed_count IS NOT NULL
        WHEN 'skipped' THEN true ELSE missed_count IS NULL END),
    -- Dead letters: whose run a session was.
    PRIMARY KEY (id, completed_at)
) PARTITION BY RANGE (completed_at);
-- runs ID, why ID: the latest runs of a connector.
CREATE INDEX runs_history ON runs (connector_id, started_at DESC);
-- Verdicts: what ended since the last look, for the metrics.
CREATE INDEX runs_ended ON runs (completed_at);
-- What no week takes, so that a verdict is never refused.
CREATE TABLE runs_rest PARTITION OF runs DEFAULT;

-- Slots of a cron schedule that passed before its user changed it, or switched off or deleted the connector: those behind
-- `after`, up to `through`. The scheduler, which can read the schedule, writes their verdict.
CREATE TABLE passed_slots (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connector_id   integer NOT NULL,
    type           text NOT NULL,
    config_version bigint NOT NULL,
    schedule_cron  text NOT NULL,
    time_zone      text NOT NULL,
    dst_gap        text,
    dst_overlap    text,
    after          timestamptz NOT NULL,
    through        timestamptz NOT NULL,
    -- Slots of a period in which a sync has completed are skipped: moments of such periods. The others are missed, for this reason.
    once_per       text,
    completed      timestamptz[] NOT NULL DEFAULT '{}',
    reason         text NOT NULL,
    -- The calendar that the schedule named, as it stood.
    calendar         text,
    calendar_use     text,
    calendar_version bigint,
    -- Whose it was; null = the system's.
    user_id          integer,
    CONSTRAINT passed_slots_range CHECK (after BETWEEN '2000-01-01 00:00+00' AND '9999-01-01 00:00+00'
        AND through BETWEEN '2000-01-01 00:00+00' AND '9999-01-01 00:00+00')
);

-- The slots of a job that its condition has passed over one after another, and nothing else since: one line of the ledger, once something else
-- follows, or after 20 hours.
CREATE TABLE unmet_slots (
    connector_id   integer PRIMARY KEY,
    type           text NOT NULL,
    config_version bigint NOT NULL,
    reason         text NOT NULL,
    first_slot     timestamptz NOT NULL,
    last_slot      timestamptz NOT NULL,
    count          integer NOT NULL,
    first_at       timestamptz NOT NULL,
    last_at        timestamptz NOT NULL
) WITH (fillfactor = 60);

-- What ended runs leave behind, until it is swept.
CREATE TABLE unswept_runs (
    run_id         uuid PRIMARY KEY,
    connector_id   integer NOT NULL,
    try_id         uuid,
    config_version bigint NOT NULL,
    -- Whether documents of earlier configurations are to be removed.
    outdated       boolean NOT NULL,
    -- How far the sweep has come, in semantic's own words.
    place          jsonb NOT NULL DEFAULT '{}',
    -- One that cannot be swept waits longer and longer, and holds up nobody.
    next_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts       integer NOT NULL DEFAULT 0
);
CREATE INDEX unswept_runs_next ON unswept_runs (next_at);

-- Open and ended runs together, for readers.
CREATE VIEW scheduler_runs AS
SELECT id, connector_id, 'connector.sync.' || type AS job_name, type, trigger, slot, NULL::timestamptz AS slot_last,
    NULL::integer AS missed_count, due_at, started_at, dispatched_at, dispatches, trigger_requested_at, deletions_allowed_at, parameters,
    picked_up_at, try_id, worker_id, fetched_at, drain_seq, NULL::timestamptz AS completed_at, 'running'::text AS status, reason,
    NULL::text AS error_message, total, stored, checkpoint_no, notes, documents_processed, documents_failed,
    documents_deleted, documents_unchanged, chunks_stored, listing_whole, new_state, config_version, waits_until, wait_message, resources,
    progress_done, progress_total, progress_text, warnings, result
FROM open_runs
UNION ALL
SELECT id, connector_id, 'connector.sync.' || type, type, trigger, slot, slot_last, missed_count, due_at, started_at,
    NULL, dispatches, trigger_requested_at, deletions_allowed_at, parameters, picked_up_at, try_id, NULL, fetched_at, NULL, completed_at, status, reason,
    error_message, total, stored, checkpoint_no, notes, documents_processed, documents_failed, documents_deleted,
    documents_unchanged, chunks_stored, listing_whole, NULL, config_version, waits_until, NULL, resources,
    progress_done, progress_total, progress_text, warnings, result
FROM runs;

-- How far those have come whom connectors run after, of the runs that count.
CREATE VIEW run_after_ends AS
SELECT a.connector_id, a.upstream_id, a.accepts, a.max_age_minutes, a.timeout_minutes, coalesce(e.no, 0) AS no,
    coalesce(CASE a.accepts WHEN 'skipped' THEN e.no ELSE e.completed_no END, 0) AS counted_no,
    CASE a.accepts WHEN 'skipped' THEN e.ended_at ELSE e.completed_at END AS ended_at,
    CASE a.accepts WHEN 'skipped' THEN e.ended_for ELSE e.completed_for END AS ended_for,
    coalesce(u.used, 0) AS used, u.seen
FROM run_after a LEFT JOIN upstream_ends e ON e.connector_id = a.upstream_id AND e.lost IS DISTINCT FROM 'gone'
    LEFT JOIN upstream_uses u ON u.connector_id = a.connector_id AND u.upstream_id = a.upstream_id;

-- What `echomind why` concludes from: where a connector stands, its open run, the lease of its worker, and what its type keeps
-- waiting or at work. Nothing of its configuration. Ask for one connector: the others of its type are counted for each row.
CREATE VIEW connector_evidence AS
SELECT clock_timestamp() AS seen_at,
    c.id, c.name, c.type, c.user_id, c.status, c.status_message, c.failure_count, c.max_retries, c.refresh_freq_minutes, c.schedule_cron,
    c.time_zone, c.dst_gap, c.dst_overlap, c.spread_percent, c.deadline_minutes, c.overlap, c.once_per, c.catch_up, c.catch_up_most, c.catch_up_minutes,
    c.fresh_within_minutes, c.synced_version, c.config_version, c.calendar, c.calendar_use,
    c.follows, c.asks_upstreams, v.upstream_id, v.upstream_name, v.upstream_status, v.upstream_ended_at,
    c.condition, c.asks_condition, c.waits_for_key, kl.most AS key_most, kp.held AS key_held, ks.since AS key_held_since, ks.connector_id AS key_holder, c.condition_met_at, u.last_at AS unmet_at, u.count AS unmet_count,
    c.claimed_at, c.synced_for, c.needs_plan, c.planned_through, c.next_sync_at, c.due_reason, c.slot_at, c.trigger_requested_at, c.parameters_due_at, c.last_sync_at, c.docs_analyzed, c.put_off_since,
    r.id AS run_id, r.trigger, r.due_at, r.started_at, r.dispatched_at, r.dispatches, r.picked_up_at, r.try_id, r.worker_id,
    w.expires_at AS lease_expires_at, r.fetched_at, r.drain_seq, r.total, r.stored, r.whole, r.cut,
    r.waits_until, r.wait_message, r.progress_done, r.progress_total, r.progress_text,
    q.key AS lock_key, q.since AS lock_asked_at, l.run_id AS lock_run_id, l.connector_id AS lock_connector_id, l.expires_at AS lock_expires_at,
    t.kind, t.max_concurrent_syncs AS type_cap,
    (SELECT count(*) FROM connectors d WHERE d.type = c.type AND d.due_at < c.due_at) AS due_before,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type) AS in_flight,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type AND o.user_id = coalesce(c.user_id, 0)) AS owner_in_flight,
    (SELECT q.max_concurrent_syncs FROM owner_quotas q WHERE q.user_id = c.user_id) AS owner_cap,
    EXISTS (SELECT FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL AND o.user_id < c.user_id)
        OR EXISTS (SELECT FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL AND o.user_id > c.user_id)
        OR EXISTS (SELECT FROM open_runs o WHERE o.type = c.type AND o.user_id < c.user_id)
        OR EXISTS (SELECT FROM open_runs o WHERE o.type = c.type AND o.user_id > c.user_id) AS has_other_owners,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at < r.dispatched_at) AS pending_before,
    (SELECT count(*) FROM open_runs o JOIN workers l ON l.id = o.worker_id WHERE o.type = c.type
        AND l.expires_at > (SELECT clock_timestamp())) AS fetching,
    -- Whether anything was claimed since it is due: the sign of life of a scheduler that works.
    EXISTS (SELECT FROM open_runs o WHERE o.dispatched_at >= coalesce(c.due_at, c.next_sync_at))
        OR EXISTS (SELECT FROM runs e WHERE e.missed_count IS NULL AND e.completed_at >= coalesce(c.due_at, c.next_sync_at)
            AND e.started_at >= coalesce(c.due_at, c.next_sync_at)) AS dispatched_since,
    r.publish_error,
    -- Why the broker has not taken what was published last of the type. What it does not take is published again each minute or so;
    -- an older error is of a message that is in the stream, whose acknowledgement was lost.
    (SELECT o.publish_error FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at > (SELECT clock_timestamp()) - interval '5 minutes'
        ORDER BY o.dispatched_at DESC LIMIT 1) AS type_publish_error
FROM connectors c
JOIN connector_types t ON t.name = c.type
LEFT JOIN open_runs r ON r.id = c.run_id
LEFT JOIN workers w ON w.id = r.worker_id
LEFT JOIN unmet_slots u ON u.connector_id = c.id
-- The first of those that it waits for.
LEFT JOIN LATERAL (SELECT n.upstream_id, p.name AS upstream_name, p.status AS upstream_status, n.ended_at AS upstream_ended_at
    FROM run_after_ends n JOIN connectors p ON p.id = n.upstream_id
    WHERE c.follows AND c.run_id IS NULL AND (c.asks_upstreams OR c.next_sync_at IS NULL) AND n.connector_id = c.id AND NOT (n.counted_no > n.used
        AND (n.max_age_minutes IS NULL OR coalesce(n.ended_for >= (SELECT clock_timestamp()) - make_interval(mins => n.max_age_minutes), false)))
    ORDER BY n.upstream_id LIMIT 1) v ON true
-- The lock that the run has waited for longest.
LEFT JOIN LATERAL (SELECT a.key, a.since FROM lock_waiters a WHERE a.run_id = r.id AND r.has_locks
    AND a.expires_at > (SELECT clock_timestamp()) ORDER BY a.no LIMIT 1) q ON true
LEFT JOIN resource_locks l ON l.key = q.key AND l.expires_at > (SELECT clock_timestamp())
LEFT JOIN concurrency_limits kl ON kl.key = c.waits_for_key
-- Who has the places of the key that it waits for: how many.
LEFT JOIN LATERAL (SELECT count(*) AS held FROM key_places p WHERE p.key = c.waits_for_key) kp ON true
-- And who has had one longest, of up to 1,000.
LEFT JOIN LATERAL (SELECT p.since, p.connector_id FROM (SELECT o.since, o.connector_id FROM key_places o WHERE o.key = c.waits_for_key LIMIT 1000) p
    ORDER BY p.since LIMIT 1) ks ON true;

-- +goose Down
DROP VIEW connector_evidence;
DROP VIEW run_after_ends;
DROP VIEW scheduler_runs;
DROP TABLE unswept_runs;
DROP TABLE unmet_slots;
DROP TABLE passed_slots;
DROP TABLE runs;
DROP TABLE lock_waiters;
DROP TABLE resource_locks;
DROP SEQUENCE lock_epochs;
DROP TABLE workers;
DROP TABLE key_places;
DROP TABLE open_runs;
DROP FUNCTION open_runs_leave_keys();
