//go:build race

package testkit

// UnderRace is how many times as long a history takes under the race detector, about: so many fewer are drawn.
const UnderRace = 4
