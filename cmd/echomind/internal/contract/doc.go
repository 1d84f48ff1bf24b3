// Package contract tests docs/contract.md and examples/node: it carries out every step of the document by psql and a bare
// NATS client, and makes the mistakes that a subscriber can make.
package contract
