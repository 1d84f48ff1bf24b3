//go:build !race

package testkit

// UnderRace is 1 without the race detector.
const UnderRace = 1
