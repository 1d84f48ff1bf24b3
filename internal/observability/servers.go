package observability

func servers() Dashboard {
	return Dashboard{
		UID: "echomind-servers", Title: "EchoMind: NATS and Postgres under it",
		Description: "What the services see of their servers. What only the leading scheduler measures has a gap during a failover.",
		rows: []row{
			{"NATS", []panel{
				graph("Connected", "Processes of each service with a connection.", "none", ask(`sum by (service) (nats_connected)`, "{{service}}")),
				graph("Reconnects", "Within an hour.", "none", ask(`sum by (service) (increase(nats_reconnects_total[1h]))`, "{{service}}")),
				graph("Streams that answer", "1 while the stream's leader answers.", "none", ask(`max by (stream) (stream_up)`, "{{stream}}")),
				graph("Replicas", "Servers that keep the stream and are up to date.", "none", ask(`max by (stream) (stream_replicas)`, "{{stream}}")),
			}},
			{"Streams", []panel{
				graph("Messages", "What waits in each stream.", "none", ask(`max by (stream) (stream_messages)`, "{{stream}}")),
				graph("Oldest message", "Age by the broker's clock.", "s", ask(`max by (stream) (stream_oldest_message_age_seconds)`, "{{stream}}")),
				graph("Filled", "Share of what the stream may hold. A full stream refuses; it evicts nothing.", "percentunit",
					ask(`max by (stream) (stream_bytes) / (max by (stream) (stream_max_bytes) > 0)`, "{{stream}}")).limit(0.6, 0.8),
				graph("Publishing", "Time until a document is acknowledged: all but a twentieth; and repeats per minute.", "s",
					ask(`histogram_quantile(0.95, sum by (type, le) (rate(worker_publish_duration_seconds_bucket[5m])))`, "{{type}}")),
			}},
			{"Postgres", []panel{
				graph("Answers", "1 while Postgres answers the leading scheduler.", "none", ask(`max(postgres_up)`, "Postgres")),
				graph("Connections", "Share of max_connections that is in use, by everybody.", "percentunit",
					ask(`max(postgres_connections_used) / max(postgres_connections_max)`, "used")).limit(0.6, 0.8),
				graph("Oldest transaction", "Age of the oldest transaction that is open, anybody's.", "s",
					ask(`max(postgres_oldest_transaction_seconds)`, "oldest")).limit(5*minute, 15*minute),
				graph("Database", "Size on disk.", "bytes", ask(`max(postgres_database_bytes)`, "size")),
			}},
			{"Pools", []panel{
				graph("Connections in use", "Of each service's pools together.", "none",
					ask(`sum by (service, state) (postgres_pool_connections)`, "{{service}}: {{state}}"),
					ask(`sum by (service) (postgres_pool_max_connections)`, "{{service}}: at most")),
				graph("Waiting for a connection", "Seconds of waiting per second.", "s",
					ask(`sum by (service) (rate(postgres_pool_wait_seconds_total[5m]))`, "{{service}}")).limit(0.1, 0.5),
				graph("Waits", "Per minute: how often the pool was empty.", "none",
					ask(`sum by (service) (rate(postgres_pool_waits_total[5m])) * 60`, "{{service}}")),
			}},
			{"Processes", []panel{
				graph("Processes", "How many of each service answer, by version.", "none",
					ask(`count by (service, version) (echomind_build_info)`, "{{service}} {{version}}")),
				graph("Memory", "Resident memory of each process.", "bytes",
					ask(`process_resident_memory_bytes and on (job, instance) echomind_build_info`, "{{job}} {{instance}}")),
				graph("CPU", "Cores that each process uses.", "none",
					ask(`rate(process_cpu_seconds_total[5m]) and on (job, instance) echomind_build_info`, "{{job}} {{instance}}")),
				graph("Goroutines", "They follow the work; a line that only climbs is a leak.", "none",
					ask(`go_goroutines and on (job, instance) echomind_build_info`, "{{job}} {{instance}}")),
			}},
		},
	}
}
