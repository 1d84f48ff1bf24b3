// Package alerts tries the alert rules: against a system that is well, against one that is broken on purpose, and the
// names in rules and dashboards against what the programs really measure. Its tests need a Prometheus and the harness's
// programs: make test-alerts.
package alerts
