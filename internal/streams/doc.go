// Package streams makes NATS's streams and consumers as contract/topology declares them, pulls messages, and writes dead
// letters.
package streams
