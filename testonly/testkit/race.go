//go:build race

package testkit

const underRace = 4
