//go:build race

package extract_test

const scale = 16
