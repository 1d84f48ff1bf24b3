// Package chart tests the chart as helm renders it: `make test-helm`. What a real API server says of it is tested in cluster.
package chart
