package mutants

// Checks that find a mutant.
const (
	takesTurns = "one worker at a time"
	noStale    = "no stale writer"
	caps       = "caps"
	flight     = "in flight is an open run"
	cronOnce   = "every cron slot once"
	slotsCome  = "every slot that came is answered"
	planStays  = "a run with parameters leaves the plan"
	ahead      = "no checkpoint runs ahead"
	documents  = "documents are the source's"
	leftBehind = "nothing is left behind"
	inTheWay   = "nobody is held up by a row that another holds"
	oneHolder  = "one run has a lock"
	noKeyOver  = "no key over its limit"
	noVain     = "no chain waits for what has happened"
	soItWas    = "slots are passed over for what was so"
	rulesKept  = "no run against a rule"
	noneInside = "no run is claimed inside a blackout"
	madeOnce   = "every change that is answered is made once"
	noHalf     = "no change without its entry in the audit"
	eachOnce   = "operations on many come to each once"
)

// All are the defects that are put back.
var All = []Mutant{
	{
		Name: "sweep", Was: "a sweep of earlier configurations takes what an open run is writing, whose place is of no configuration",
		SQL: []Edit{{
			"moves.sweep_outdated", "AND d.config_version < version AND NOT moves.is_being_written(connector, d.touched_by)",
			"AND d.config_version < version",
		}},
		Script: `CREATE FUNCTION mutant() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN NEW.config_version := 0; RETURN NEW; END $$;
			CREATE TRIGGER mutant BEFORE INSERT ON documents FOR EACH ROW WHEN (NEW.written_by IS NULL) EXECUTE FUNCTION mutant()`,
		Faults: "users at the worst moment", Seed: 8, Finds: []string{noStale},
	},
	{
		Name: "try", Was: "a store looks whose run it is, and not whose try",
		Go: []Edit{
			{storeSQL, "WHERE r.id = $1 AND r.try_id = $2::uuid", "WHERE r.id = $1 AND $2::uuid IS NOT NULL"},
			{storeSQL, "WHERE id = $9 AND try_id = $10::uuid", "WHERE id = $9 AND $10::uuid IS NOT NULL"},
		},
		Faults: "forged and outdated messages|users at the worst moment", Seed: 8, Finds: []string{noStale},
	},
	{
		Name: "skip-locked", Was: "one connector that somebody holds keeps every other from being found lost in transit",
		SQL:      []Edit{{"moves.fail_lost_in_transit", "FOR UPDATE OF k SKIP LOCKED", "FOR UPDATE OF k"}},
		Scenario: heldUp, Finds: []string{inTheWay},
	},
	{
		Name: "envelope", Was: "a store believes what a message says of its connector and its configuration",
		Go: []Edit{
			{storeGo, "if err := checkEnvelope(it.request, t.run.ConnectorID, t.run.ConfigVersion); err != nil {",
				"if err := checkEnvelope(it.request, t.run.ConnectorID, t.run.ConfigVersion); err != nil && false {"},
			{storeGo, "ConnectorID: t.run.ConnectorID, ConfigVersion: t.run.ConfigVersion, TryID: t.try.ID, SourceIds",
				"ConnectorID: items[0].request.ConnectorId, ConfigVersion: items[0].request.ConfigVersion, TryID: t.try.ID, SourceIds"},
		},
		Faults: "forged and outdated messages", Seed: 8, Finds: []string{noStale, documents},
	},
	{
		Name: "slot", Was: "a slot that has passed is lost when its user changes the schedule",
		SQL: []Edit{{
			"public.connectors_replanned", "(moves.miss_slots(old, 'schedule changed before it could be claimed')).slots_through", "old.slots_through",
		}},
		Scenario: edited(`UPDATE connectors SET refresh_freq_minutes = 7`), Finds: []string{slotsCome},
	},
	{
		Name: "slot-off", Was: "a slot that has passed is lost when its user switches the connector off",
		SQL:      []Edit{{"moves.disable", "c := moves.miss_slots(c, 'disabled before it could be claimed');", ""}},
		Scenario: edited(`SELECT moves.disable(id) FROM connectors`), Finds: []string{slotsCome},
	},
	{
		Name: "slot-gone", Was: "a slot that has passed is lost when its user deletes the connector",
		SQL: []Edit{{
			"public.connectors_user_delete", "PERFORM moves.miss_slots(CASE WHEN OLD.kept_plan IS NULL THEN OLD ELSE moves.resumed(OLD) END, 'connector deleted before it could be claimed');", "",
		}},
		Scenario: edited(`DELETE FROM connectors`), Finds: []string{slotsCome},
	},
	{
		Name: "slot-asked", Was: "a run with parameters answers the slot that its connector was planned for",
		SQL:      []Edit{{"moves.kept", "'slot_at', c.slot_at", "'slot_at', NULL::timestamptz"}},
		Scenario: asked, Finds: []string{planStays},
	},
	{
		Name: "failure-asked", Was: "a run with parameters whose worker is lost counts as a failure of its connector's own",
		SQL:      []Edit{{"moves.resumed", "jsonb_populate_record(c, c.kept_plan)", "jsonb_populate_record(c, c.kept_plan - 'failure_count')"}},
		Scenario: asked, Finds: []string{planStays},
	},
	{
		Name: "pick-up", Was: "a trigger that is delivered again takes the run from who is reading",
		SQL: []Edit{
			{"moves.pick_up", "IF c.status = 'SYNCING' THEN", "IF false THEN"},
			{"moves.pick_up_all", "ELSE a.status <> 'SYNCING' OR moves.has_taken(a.run, a.try, worker) END", "ELSE true END"},
			{"moves.pick_up_all", "IF a.status <> 'SYNCING' AND NOT a.run", "IF NOT a.run"},
			{"moves.take", "AND r.try_id IS NULL;", ";"},
		},
		Faults: "messages repeated", Seed: 8, Finds: []string{takesTurns},
	},
	{
		Name: "checkpoint", Was: "a checkpoint is passed before everything ahead of it is stored",
		SQL:    []Edit{{"moves.counted_through", "m.no > through + 1 OR", ""}},
		Faults: "kill -9 semantic", Seed: 8, Finds: []string{ahead},
	},
	{
		Name: "delete", Was: "the run of a connector that is deleted stays open",
		SQL: []Edit{{
			"public.connectors_user_delete", "PERFORM moves.end_runs(ARRAY[OLD.run_id], 'superseded', 'connector deleted');", "NULL;",
		}},
		Faults: "users at the worst moment", Seed: 8, Finds: []string{flight},
	},
	{
		Name: "unswept", Was: "what an ended run leaves is not remembered",
		SQL:    []Edit{{"moves.end_runs", "config_version, false FROM gone", "config_version, false FROM gone WHERE false"}},
		Faults: "kill -9 synthetic", Seed: 8, Finds: []string{leftBehind},
	},
	{
		Name: "missed", Was: "slots that passed before a claim get no verdict",
		SQL:    []Edit{{"moves.answer_slots", "WHERE p.count > 0", "WHERE false AND p.count > 0"}},
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{cronOnce},
	},
	{
		Name: "lock-taken", Was: "a lock is given though its time is not over",
		SQL:      []Edit{{"moves.acquire_lock", "l.expires_at <= (SELECT clock_timestamp()) AND acquire_lock.ahead = 0", "acquire_lock.ahead = 0"}},
		Scenario: lockedTwice, Finds: []string{oneHolder},
	},
	{
		Name: "lock-kept", Was: "a run that ends keeps its locks",
		SQL:      []Edit{{"moves.end_runs", "IF had_locks THEN", "IF false THEN"}},
		Scenario: lockedTwice, Finds: []string{oneHolder},
	},
	{
		Name: "lock-unknown", Was: "a lock is free for another run when a user ends the holder's, whose worker does not know it",
		SQL:      []Edit{{"moves.let_go", "IF own THEN", "IF true THEN"}},
		Scenario: lockedTwice, Finds: []string{oneHolder},
	},
	{
		Name: "lock-epoch", Was: "a lock is given in an epoch that was given before",
		SQL:      []Edit{{"moves.give_lock", "VALUES (lock_key, next, r.id,", "VALUES (lock_key, 1, r.id,"}},
		Scenario: lockedTwice, Finds: []string{oneHolder},
	},
	{
		Name: "key-turn", Was: "two claimers count the places of a concurrency key at once",
		SQL:      []Edit{{"moves.key_room", "IF claims THEN", "IF false THEN"}},
		Scenario: keyed, Finds: []string{noKeyOver},
	},
	{
		Name: "key-count", Was: "claimers do not count the places of a concurrency key",
		SQL:      []Edit{{"moves.key_room", "ELSE l.most - (SELECT", "ELSE l.most - 0 * (SELECT"}},
		Scenario: keyed, Finds: []string{noKeyOver},
	},
	{
		Name: "key-kept", Was: "a run that ends keeps its places of concurrency keys",
		SQL:      []Edit{{"public.open_runs_leave_keys", "WHERE p.run_id = OLD.id", "WHERE p.run_id = OLD.id AND false"}},
		Scenario: keyed, Finds: []string{noKeyOver},
	},
	{
		Name: "key-rescue", Was: "a rescue leaves the places of its lost run",
		SQL:      []Edit{{"moves.claim_again", "IF lost.has_keys THEN", "IF false THEN"}},
		Scenario: keyed, Finds: []string{noKeyOver},
	},
	{
		Name: "key-waiter", Was: "a connector waits for a concurrency key, and no look knows it",
		SQL:      []Edit{{"public.connectors_note_waiter", "IF NEW.waits_for_key IS NOT NULL THEN", "IF false THEN"}},
		Scenario: keyed, Finds: []string{noKeyOver},
	},
	{
		Name: "chain-end", Was: "who runs after a connector is not to be told that its run has completed",
		SQL:      []Edit{{"moves.settled", "IF c.followed THEN", "IF false THEN"}},
		Scenario: chained, Finds: []string{noVain},
	},
	{
		Name: "chain-told", Was: "who runs after a connector counts as told of its end, and is not looked at",
		SQL:      []Edit{{"moves.look_now", "f.connector_id = ANY (ready) AND (", "f.connector_id = ANY (ready) AND false AND ("}},
		Scenario: chained, Finds: []string{noVain},
	},
	{
		Name: "chain-waits", Was: "a connector that waits for the end of another is not told of it",
		SQL:      []Edit{{"moves.told_of", "OR f.waits_for = upstream", "OR false"}},
		Scenario: chained, Finds: []string{noVain},
	},
	{
		Name: "chain-unused", Was: "a connector that ran after another is let go for the same end again",
		SQL:      []Edit{{"moves.use_ends", "greatest(u.used, u.seen)", "u.used"}},
		Scenario: chained, Finds: []string{noVain},
	},
	{
		Name: "chain-some", Was: "a connector that runs after two is let go when one of them has ended",
		SQL:      []Edit{{"moves.upstreams_of", "coalesce(bool_and(e.has), false)", "coalesce(bool_or(e.has), false)"}},
		Scenario: chained, Finds: []string{noVain},
	},
	{
		Name: "unasked", Was: "a job is claimed, and nobody has asked its condition",
		Script: `CREATE FUNCTION mutant() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN NEW.condition_met_at := clock_timestamp(); RETURN NEW; END $$;
			CREATE TRIGGER z_mutant BEFORE INSERT OR UPDATE ON connectors FOR EACH ROW
				WHEN (NEW.condition IS NOT NULL AND NEW.run_id IS NULL AND NEW.condition_met_at IS NULL) EXECUTE FUNCTION mutant()`,
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{rulesKept},
	},
	{
		Name: "unmet", Was: "a slot that a condition passes over gets no line",
		SQL:    []Edit{{"moves.skip_unmet", "p.unmet_slot IS NOT NULL AND (p.unmet_slot >", "p.unmet_slot IS NOT NULL AND false AND (p.unmet_slot >"}},
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{cronOnce, slotsCome},
	},
	{
		Name: "unmet-end", Was: "the line of a condition is lost when its job is changed, switched off or runs",
		SQL:    []Edit{{"moves.end_unmet", "FROM gone g;", "FROM gone g WHERE false;"}},
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{cronOnce, slotsCome},
	},
	{
		Name: "condition-fails", Was: "the failure of a condition is another job's",
		SQL:    []Edit{{"moves.fail_conditions", "k.id = f.id AND k.asks_condition", "k.id <> f.id AND k.asks_condition LIMIT 1"}},
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{soItWas},
	},
	{
		Name: "calendar", Was: "a calendar is not asked when a slot is planned and claimed",
		SQL: []Edit{
			{"moves.lock_due", "RETURN NEXT c;", "c.calendar := NULL; RETURN NEXT c;"},
			{"moves.lock_unplanned", "SELECT * FROM connectors WHERE needs_plan", `SELECT (jsonb_populate_record(c, '{"calendar": null}')).* FROM connectors c WHERE needs_plan`},
		},
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{rulesKept},
	},
	{
		Name: "blackout", Was: "a blackout window of one owner holds those of another",
		Script: `DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW blackout_windows AS ' || replace(pg_get_viewdef('blackout_windows'::regclass), 'b.user_id,', 'b.user_id + 1 AS user_id,'); END $$`,
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{noneInside},
	},
	{
		Name: "blackout-type", Was: "a blackout window of a type is not asked at a claim",
		SQL:    []Edit{{"moves.lock_due", "RETURN NEXT c;", "c.type := 'none'; RETURN NEXT c;"}},
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{noneInside},
	},
	{
		Name: "completed", Was: "a line says that a sync has completed, and none has",
		SQL:    []Edit{{"moves.failed", "c.claimed_for := NULL;", "c.synced_for := c.claimed_for;"}},
		Faults: "SIGTERM scheduler", Seed: 8, Finds: []string{soItWas},
	},
	{
		Name: "cap", Was: "claimers of a capped type do not count what is in flight",
		SQL: []Edit{{
			"moves.lock_due", "SELECT cap - count(*) INTO free", "SELECT cap - 0 * count(*) INTO free",
		}},
		Scenario: capped, Finds: []string{caps},
	},
	{
		Name: "entry", Was: "a connector is added over REST, and the audit does not say so",
		SQL:    []Edit{{"public.connectors_audit_added", "CROSS JOIN added c", "CROSS JOIN added c WHERE false"}},
		Faults: "kill -9 api", Seed: 8, Finds: []string{noHalf, madeOnce},
	},
	{
		Name: "entry-only", Was: "a sync that is asked for over REST is in the audit, and is not asked for",
		SQL:      []Edit{{"moves.trigger_sync", "UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = connector RETURNING trigger_requested_at INTO asked;", "asked := clock_timestamp();"}},
		Scenario: requested(noHalf), Finds: []string{noHalf},
	},
	{
		Name: "entry-on", Was: "a connector is switched on over REST, and the audit does not say so",
		SQL:      []Edit{{"moves.enable", "PERFORM moves.note_change('connectors.enable', c.id::text, NULL, NULL, c);", ""}},
		Scenario: requested(noHalf), Finds: []string{noHalf},
	},
	{
		Name: "key", Was: "a request that comes again with its key is made again",
		SQL:      []Edit{{"api.begin_request", "again := NOT FOUND;", "again := false;"}},
		Scenario: requested(madeOnce), Finds: []string{madeOnce},
	},
	{
		Name: "key-lost", Was: "a request is made, and its key says nothing of it",
		SQL:      []Edit{{"api.end_request", "SET done = request_done", "SET done = ''"}},
		Scenario: requested(madeOnce), Finds: []string{madeOnce},
	},
	{
		Name: "batch", Was: "a batch of an operation is done, and comes again",
		SQL:      []Edit{{"api.note_batch", "DELETE FROM operation_batches n WHERE n.operation_id = o.id AND n.no = b.no;", "NULL;"}},
		Scenario: requested(eachOnce), Finds: []string{eachOnce},
	},
	{
		Name: "batch-counts", Was: "a batch of an operation is done, and not counted",
		SQL:      []Edit{{"api.note_batch", "changed = p.changed + n_changed", "changed = p.changed + 0 * n_changed"}},
		Scenario: requested(eachOnce), Finds: []string{eachOnce},
	},
}
