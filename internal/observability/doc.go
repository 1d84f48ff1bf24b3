// Package observability builds the dashboards and reads the alert rules that the chart and docker-compose ship, so that tests
// can compare both with the metrics of the services.
//
//	dashboard.go   what a Grafana dashboard is made of
//	healthy.go     is it healthy
//	connector.go   one connector, from the ledger
//	servers.go     NATS and Postgres under it
//	rules.go       helm/echomind/files/alerts.yaml
//	promql.go      which metrics and labels an expression names
package observability
