//go:build !race

package testkit

const underRace = 1
