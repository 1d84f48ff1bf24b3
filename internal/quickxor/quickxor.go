// Package quickxor is the hash that OneDrive lists for every file.
package quickxor

import "encoding/binary"

// Sum is the hash as the service writes it, before base64 ("QuickXorHash algorithm"): each byte is XORed into 160
// bits, 11 bits further than the one before it, in a circle; at the end the length goes into the last 64 bits.
func Sum(content []byte) (sum [20]byte) {
	const width, shift = 160, 11
	at := 0
	for _, b := range content {
		cell, bit := at/8, at%8
		sum[cell] ^= b << bit
		if bit > 0 {
			sum[(cell+1)%len(sum)] ^= b >> (8 - bit)
		}
		if at += shift; at >= width {
			at -= width
		}
	}
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(content)))
	for i, b := range length {
		sum[len(sum)-len(length)+i] ^= b
	}
	return sum
}
