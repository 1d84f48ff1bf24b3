package observability

const minute = 60.0

func healthy() Dashboard {
	return Dashboard{
		UID: "echomind-healthy", Title: "EchoMind: is it healthy?",
		Description: "Is anything late, failing or waiting? The rows follow the data: due, claimed, picked up, fetched, stored.",
		rows: []row{
			{"At a glance", []panel{
				number("Leader", "Schedulers that lead: 1, always.", "none", `sum(scheduler_leader)`),
				number("Oldest due", "How long the connector that is due longest has not been claimed.", "s",
					`max(scheduler_oldest_due_seconds)`).limit(5*minute, 15*minute),
				number("Oldest waiting for a worker", "Age of the oldest trigger that nobody has picked up.", "s",
					`max(scheduler_oldest_pending_seconds)`).limit(5*minute, 15*minute),
				number("Oldest waiting to be stored", "How long the run waits longest whose worker is done.", "s",
					`max(scheduler_oldest_drain_seconds)`).limit(10*minute, 30*minute),
				number("Failed within an hour", "Share of the syncs that ended, without those that were handed back.", "percentunit",
					`sum(increase(scheduler_verdicts_total{verdict="failed"}[1h])) / sum(increase(scheduler_verdicts_total{verdict=~"completed|skipped|failed"}[1h]))`).limit(0.05, 0.2),
				number("Dead letters", "Messages that wait for a person's decision.", "none",
					`max(stream_messages{stream="DEAD_LETTERS"})`).limit(1),
			}},
			{"Verdicts", []panel{
				graph("Verdicts", "Runs that ended, per minute.", "none",
					ask(`sum by (verdict) (rate(scheduler_verdicts_total[5m])) * 60`, "{{verdict}}")),
				graph("Why runs failed", "Failed runs by reason, within an hour.", "none",
					ask(`sum by (type, reason) (increase(scheduler_verdicts_total{verdict="failed"}[1h])) > 0`, "{{type}}: {{reason}}")),
				graph("Connectors by status", "ERROR waits for its next try; DISABLED for a person.", "none",
					ask(`max by (status) (sum by (status, instance) (scheduler_connectors))`, "{{status}}")),
			}},
			{"Lag: from due to picked up", []panel{
				graph("Dispatch lag", "Time from due to published: half of the syncs, and all but a twentieth.", "s",
					ask(`histogram_quantile(0.5, sum by (le) (rate(scheduler_dispatch_lag_seconds_bucket[5m])))`, "half"),
					ask(`histogram_quantile(0.95, sum by (le) (rate(scheduler_dispatch_lag_seconds_bucket[5m])))`, "95 %")),
				graph("Due and not claimed", "Connectors that are due. A cap keeps some of them waiting.", "none",
					ask(`max by (type) (scheduler_due_connectors)`, "{{type}}")),
				graph("Backlog age", "Age of the oldest trigger that waits for a worker.", "s",
					ask(`max by (type) (scheduler_oldest_pending_seconds)`, "{{type}}")).limit(5*minute, 15*minute),
				graph("Dispatched", "Triggers published and acknowledged, per minute.", "none",
					ask(`sum by (type) (rate(scheduler_jobs_total[5m])) * 60`, "{{type}}")),
			}},
			{"Workers and leases", []panel{
				graph("Busy slots", "Share of slots that hold a sync.", "percentunit",
					ask(`sum by (type) (worker_slots_busy) / sum by (type) (worker_slots)`, "{{type}}")),
				graph("Leases", "Runs that workers hold, and leases that have run out and wait for a rescue.", "none",
					ask(`sum by (type) (worker_leases_held)`, "held: {{type}}"),
					ask(`max by (type) (scheduler_expired_leases)`, "expired: {{type}}")),
				graph("Lease renewals that did not succeed", "Per minute. Fenced: another holds the run. Unanswered: Postgres was silent.", "none",
					ask(`sum by (type, result) (rate(worker_lease_renewals_total{result!="renewed"}[5m])) * 60`, "{{type}}: {{result}}")),
				graph("Fetch", "Time from pick-up to the handler's end: all but a twentieth.", "s",
					ask(`histogram_quantile(0.95, sum by (type, le) (rate(worker_fetch_duration_seconds_bucket[10m])))`, "{{type}}")),
			}},
			{"Storing", []panel{
				graph("Document messages", "Per second, by what came of them.", "none",
					ask(`sum by (result) (rate(semantic_messages_total[5m]))`, "{{result}}")),
				graph("Draining runs", "Runs whose worker is done and whose documents are not all stored.", "none",
					ask(`max(scheduler_draining_runs)`, "runs")),
				graph("Store and embed", "Time of one transaction, and of one batch: all but a twentieth.", "s",
					ask(`histogram_quantile(0.95, sum by (le) (rate(semantic_store_duration_seconds_bucket[5m])))`, "store"),
					ask(`histogram_quantile(0.95, sum by (le) (rate(semantic_embed_duration_seconds_bucket[5m])))`, "embed")),
				graph("Embedder", "Batches that it refused, per minute.", "none",
					ask(`sum(rate(semantic_embed_errors_total[5m])) * 60`, "refused")),
			}},
			{"Failover and repair", []panel{
				graph("Who leads", "One line at 1. A gap is a failover.", "none", ask(`scheduler_leader`, "{{instance}}")),
				graph("Ticks", "Per minute, and those that ended early.", "none",
					ask(`sum(rate(scheduler_ticks_total[5m])) * 60`, "ticks"),
					ask(`sum(rate(scheduler_tick_errors_total[5m])) * 60`, "errors")),
				graph("Repaired", "Within an hour: triggers published again, workers' runs begun again, runs whose documents vanished.", "none",
					ask(`sum(increase(scheduler_republished_total[1h]))`, "published again"),
					ask(`sum(increase(scheduler_rescued_total[1h]))`, "rescued"),
					ask(`sum(increase(scheduler_lost_in_transit_total[1h]))`, "lost in transit")),
				graph("Providers", "Requests that wait because the provider says so.", "none",
					ask(`sum by (provider) (rate(connector_provider_throttled_seconds_total[5m]))`, "{{provider}}")),
			}},
		},
	}
}
