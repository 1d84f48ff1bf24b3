//go:build !race

package extract_test

// scale is by how much less is read where everything takes ten times as long.
const scale = 1
