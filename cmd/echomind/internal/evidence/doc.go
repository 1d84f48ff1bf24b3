// Package evidence tests internal/evidence on real servers, with the moves of sdk/lifecycle, which is above it.
package evidence
