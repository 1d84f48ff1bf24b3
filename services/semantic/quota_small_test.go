//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

// What is remembered as left is never more than there is: what has room because it is small takes it, too.
func TestADeletedDocumentMakesNoMoreRoomThanItTook(t *testing.T) {
	small := func(p *internalpb.DocumentPart) { p.Links = []string{strings.Repeat("x", 8000)} }
	long := strings.Repeat("long ", 2000)
	for name, c := range map[string]struct {
		is string
		as []func(*internalpb.DocumentPart)
	}{
		"a failure":                 {"x", []func(*internalpb.DocumentPart){unreadable, small}},
		"a folder":                  {"", []func(*internalpb.DocumentPart){small, func(p *internalpb.DocumentPart) { p.Chunks, p.ChunkCount = nil, 0 }}},
		"what contradicts itself":   {"x", []func(*internalpb.DocumentPart){small, func(p *internalpb.DocumentPart) { p.ChunkCount = 2 }}},
		"what is refused":           {long, []func(*internalpb.DocumentPart){small}},
		"what keeps what is not so": {"x", []func(*internalpb.DocumentPart){touched("no such hash", "v2"), small}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.may(1, "max_bytes", 5000)
			trip := f.syncing()
			trip.stores(trip.doc(1, "a", "apple"))
			no := int64(1)
			for range 3 {
				trip.stores(trip.doc(no+1, "small", c.is, c.as...))
				trip.stores(trip.deletion(no+2, "small"))
				no += 2
			}
			for range 3 {
				trip.stores(trip.doc(no+1, "small", "x", unreadable, func(p *internalpb.DocumentPart) { p.Title = long[:1000] }))
				trip.stores(trip.doc(no+2, "small", c.is, append(c.as, func(p *internalpb.DocumentPart) { p.Title = "" })...))
				no += 2
			}
			require.LessOrEqual(t, f.quotas.owners[1].left.bytes, one[int64](f, `SELECT bytes FROM moves.owner_has_room(1)`))
			trip.stores(trip.doc(no+1, "long", long))
			require.Zero(t, one[int64](f, `SELECT text_bytes FROM documents WHERE source_id = 'long'`))
			require.Empty(t, f.wronglyCounted())
		})
	}
}

// Whatever is stored, fails, is refused, kept and deleted at a full quota.
func TestWhatIsRememberedAsLeftIsNeverMoreThanThereIs(t *testing.T) {
	f := newFixture(t)
	f.may(1, "max_bytes", 6000)
	f.may(1, "max_documents", 7)
	draw := rand.New(rand.NewPCG(1, 2))
	const two = 2 // connectors
	trips, nos := []trip{f.syncing(), f.syncing()}, make([]int64, two)
	for op := range 150 {
		i := draw.IntN(two)
		c, said := trips[i], ""
		var batch []*internalpb.DocumentProcessRequest
		for range 1 + draw.IntN(3) {
			nos[i]++
			id, kind := string(rune('a'+draw.IntN(6))), draw.IntN(10)
			said += fmt.Sprint(kind, id, " ")
			says := func(p *internalpb.DocumentPart) {
				p.Title, p.Links = strings.Repeat("t", draw.IntN(2)*draw.IntN(1000)), []string{strings.Repeat("l", draw.IntN(200))}
				if draw.IntN(20) == 0 {
					p.Links = append(p.Links, strings.Repeat("l", smallBytes))
				}
			}
			switch {
			case kind < 5:
				batch = append(batch, c.doc(nos[i], id, strings.Repeat("w", 1+draw.IntN(1500)), says))
			case kind == 5:
				batch = append(batch, c.doc(nos[i], id, "x", unreadable, says))
			case kind == 6:
				batch = append(batch, c.doc(nos[i], id, "", func(p *internalpb.DocumentPart) { p.Chunks, p.ChunkCount = nil, 0 }, says))
			case kind == 7:
				hash := one[string](f, `SELECT coalesce((SELECT content_hash FROM documents WHERE connector_id = $1 AND source_id = $2), 'none')`, c.connector, id)
				batch = append(batch, c.doc(nos[i], id, "x", touched(hash, "v2"), says))
			case kind == 8:
				batch = append(batch, c.deletion(nos[i], id))
			default:
				batch = append(batch, c.doc(nos[i], id, "x", func(p *internalpb.DocumentPart) { p.ChunkCount = 2 }, says))
			}
		}
		c.stores(batch...)
		if room := f.quotas.owners[1]; room != nil {
			require.LessOrEqual(t, room.left.documents, one[int64](f, `SELECT documents FROM moves.owner_has_room(1)`), "%d: %s", op, said)
			require.LessOrEqual(t, room.left.bytes, one[int64](f, `SELECT bytes FROM moves.owner_has_room(1)`), "%d: %s", op, said)
		}
		if draw.IntN(12) == 0 { // its next run, now and then of another configuration
			if draw.IntN(2) == 0 {
				f.exec(`UPDATE connectors SET config = jsonb_build_object('n', $2::integer) WHERE id = $1`, c.connector, op)
				f.later()
			}
			c.stores(c.completed(nos[i]))
			trips[i], nos[i] = c.again(), 0
		}
	}
	require.Empty(t, f.wronglyCounted())
}
