// Package streams makes a NATS server agree with what contract/topology declares, pulls from its consumers, and writes dead letters.
package streams
