// Package bench measures the figures that docs/performance.md reports. Each benchmark drives the real program, or the
// real service over a real Postgres with its durable defaults; with -short it is the same on a small scale.
package bench
