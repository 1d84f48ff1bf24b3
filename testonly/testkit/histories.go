package testkit

import (
	"flag"
	"strconv"
)

// Histories has each of a package's rapid tests draw so many histories; under the race detector, where each takes many
// times as long, a quarter of them. A TestMain calls it.
func Histories(checks int) {
	if err := flag.Set("rapid.checks", strconv.Itoa(max(1, checks/UnderRace))); err != nil {
		panic(err) // the package does not use rapid
	}
}
