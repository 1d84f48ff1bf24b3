package semantic

import (
	"cmp"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
)

// The most that is embedded and stored together, besides the batch: rows that a store writes, and bytes. A single message is always
// below both.
const (
	portionRows  = 2 * (topology.MaxMessageChunks + 1)
	portionBytes = 16 * topology.MaxMessageBytes
	// decodedBytes is about how much memory the messages take that one worker decodes before it stores them.
	decodedBytes = 32 << 20
	// replacedChunks is how many chunks one store may replace or delete. A single document may have more.
	replacedChunks = topology.MaxDocumentChunks / 5
)

// countFitting returns how many messages of a batch, at least one, are decoded and held at once.
func countFitting(batch []jetstream.Msg) (n int) {
	weight := 0
	for _, msg := range batch {
		weight += wire.Weight(msg.Data(), (*internalpb.DocumentProcessRequest)(nil))
		if n > 0 && weight > decodedBytes {
			break
		}
		n++
	}
	return n
}

// portions cuts messages of one try, in the order of their numbers, into groups that are embedded and stored together. A sender of
// very many small chunks thus exceeds neither our memory nor the time of one store. Sync completed comes last.
func portions(group []delivery) (cut [][]delivery) {
	slices.SortStableFunc(group, func(a, b delivery) int { return cmp.Compare(uint64(a.request.Number-1), uint64(b.request.Number-1)) })
	begin, rows, size := 0, 0, 0
	for i, d := range group {
		r, n := rowsOf(d.request), proto.Size(d.request)
		if i > begin && (rows+r > portionRows || size+n > portionBytes) {
			cut = append(cut, group[begin:i])
			begin, rows, size = i, 0, 0
		}
		rows, size = rows+r, size+n
	}
	return append(cut, group[begin:])
}

// rowsOf estimates how many rows the store of a message writes.
func rowsOf(r *internalpb.DocumentProcessRequest) int {
	return 1 + len(r.GetPart().GetChunks()) + len(r.GetSeen().GetSourceIds())
}
