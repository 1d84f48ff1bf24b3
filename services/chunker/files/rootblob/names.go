package rootblob

import (
	"bytes"
	"cmp"
	"io/fs"
	"slices"
)

// names are the names of one folder, packed: a million short names take some 30 MB.
type names struct {
	blocks [][]byte
	// at is the place of each name: its block, and in the last 16 bits its first byte there.
	at []uint32
}

const (
	leastBlock = 512
	mostBlock  = 1 << 16
	// escapes marks, beside its kind, an item whose name differs from its key.
	escapes = 0x80
)

// kinds are the types of an entry; an item has the index of its type.
var kinds = []fs.FileMode{
	0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, fs.ModeSocket, fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice, fs.ModeIrregular,
}

// add packs an item: its kind, its name, and the escaped name if that differs, each with a NUL at its end.
func (n *names) add(it item) {
	kind := slices.Index(kinds, it.mode.Type())
	if kind < 0 {
		kind = len(kinds) - 1
	}
	length := 1 + len(it.name) + 1
	if it.escaped != it.name {
		kind |= escapes
		length += len(it.escaped) + 1
	}
	last := len(n.blocks) - 1
	if last < 0 || len(n.blocks[last])+length > cap(n.blocks[last]) {
		size := leastBlock
		if last >= 0 {
			size = min(2*cap(n.blocks[last]), mostBlock)
		}
		n.blocks = append(n.blocks, make([]byte, 0, max(size, length)))
		last++
	}
	block := n.blocks[last]
	n.at = append(n.at, uint32(last)<<16|uint32(len(block)))
	block = append(append(append(block, byte(kind)), it.name...), 0)
	if kind&escapes != 0 {
		block = append(append(block, it.escaped...), 0)
	}
	n.blocks[last] = block
}

// bytes is the memory of the names.
func (n *names) bytes() int {
	sum := 4 * cap(n.at)
	for _, b := range n.blocks {
		sum += cap(b)
	}
	return sum
}

// next removes and returns the first item.
func (n *names) next() (it item, ok bool) {
	if len(n.at) == 0 {
		return item{}, false
	}
	kind, name, key := n.parts(n.at[0])
	n.at = n.at[1:]
	it = item{name: string(name), mode: kinds[kind&^escapes]}
	if it.escaped = it.name; kind&escapes != 0 {
		it.escaped = string(key)
	}
	return it, true
}

// parts unpacks what add has packed; key is the name where that needs no escaping.
func (n *names) parts(at uint32) (kind byte, name, key []byte) {
	packed := n.blocks[at>>16][at&(mostBlock-1):]
	kind, packed = packed[0], packed[1:]
	end := bytes.IndexByte(packed, 0)
	name = packed[:end]
	if kind&escapes == 0 {
		return kind, name, name
	}
	packed = packed[end+1:]
	return kind, name, packed[:bytes.IndexByte(packed, 0)]
}

// sort sorts the items by their keys, in which a slash follows the name of a folder.
func (n *names) sort() {
	slices.SortFunc(n.at, func(a, b uint32) int {
		kindA, _, keyA := n.parts(a)
		kindB, _, keyB := n.parts(b)
		common := min(len(keyA), len(keyB))
		return cmp.Or(
			bytes.Compare(keyA[:common], keyB[:common]),
			cmp.Compare(after(kindA, keyA, common), after(kindB, keyB, common)),
		)
	})
}

// after is the byte at i of a key; after its end, less than any byte.
func after(kind byte, key []byte, i int) int {
	switch {
	case i < len(key):
		return int(key[i])
	case kinds[kind&^escapes].IsDir():
		return '/'
	}
	return -1
}
