// Package metrics holds every service against docs/metrics.md: each is started by itself, on real servers, and what it
// registers is the list.
package metrics
