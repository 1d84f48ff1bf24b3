//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

// brokenDocuments are the documents that show other chunks than all their own.
func (f *fixture) brokenDocuments() []string {
	f.t.Helper()
	return many[string](f, `SELECT format('%s of connector %s: %s of %s chunks', d.source_id, d.connector_id, count(c.no), d.chunk_count)
		FROM documents d LEFT JOIN chunks c ON c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id
		WHERE d.try_id IS NOT NULL GROUP BY d.id HAVING count(c.no) <> d.chunk_count OR coalesce(max(c.no), -1) <> d.chunk_count - 1`)
}

// TestASenderThatContradictsItselfNeverMakesAWholeDocument: the run fails, or it completes and its cursor stays where it was.
func TestASenderThatContradictsItselfNeverMakesAWholeDocument(t *testing.T) {
	for name, c := range map[string]struct {
		sends   func(c trip) []*internalpb.DocumentProcessRequest
		verdict string
		letters int
	}{
		"a total below what is stored": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x"), c.doc(2, "b", "x"), c.completed(1)}
		}, "failed", 1},
		"a number beyond a total that is said later": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(3, "a", "x"), c.completed(2), c.doc(1, "b", "x")}
		}, "failed", 1},
		"a number beyond a total that was said": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.completed(2), c.doc(1, "a", "x"), c.doc(3, "b", "x")}
		}, "failed", 1},
		"numbers beyond the total make it up": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 2)), c.doc(7, "b", "x"), c.completed(2)}
		}, "failed", 1},
		"a part that is another document's": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 2)), c.doc(2, "b", "x", part(1, 2)), c.completed(2)}
		}, "completed", 0},
		"part counts that disagree": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 3)), c.doc(2, "a", "x", part(1, 2)), c.completed(2)}
		}, "completed", 0},
		"chunk counts that disagree": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 2)),
				c.doc(2, "a", "x", part(1, 2), func(p *internalpb.DocumentPart) { p.ChunkCount = 3 }), c.completed(2)}
		}, "completed", 0},
		"fewer chunks than all parts say": {func(c trip) []*internalpb.DocumentProcessRequest {
			three := func(p *internalpb.DocumentPart) { p.ChunkCount = 3 }
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 2), three), c.doc(2, "a", "x", part(1, 2), three), c.completed(2)}
		}, "completed", 0},
		"part ranges that overlap": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 2)), c.doc(2, "b", "x", part(0, 2)), c.doc(3, "b", "x", part(1, 2)), c.completed(3)}
		}, "completed", 0},
		"a checkpoint inside a document": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 2)), c.checkpoint(2, 9), c.completed(2)}
		}, "completed", 0},
		"two parts with the same chunk": {func(c trip) []*internalpb.DocumentProcessRequest {
			return []*internalpb.DocumentProcessRequest{c.doc(1, "a", "x", part(0, 2)),
				c.doc(2, "a", "x", part(1, 2), func(p *internalpb.DocumentPart) { p.FirstChunk = 0 }), c.completed(2)}
		}, "completed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			trip := f.synced(map[string]string{"a": "old"}).again()
			cursor := one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, trip.connector)
			f.publishes(c.sends(trip)...)
			f.config.Workers = 1
			f.runs()
			f.becomes(trip, c.verdict)
			f.empties()
			require.Len(t, f.letters(), c.letters)
			require.Empty(t, f.brokenDocuments())
			if name == "two parts with the same chunk" { // the document is known to have failed, so that it is fetched again
				require.Contains(t, trip.documents(), "a | failed |  |")
				return
			}
			require.Equal(t, cursor, one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, trip.connector))
			if c.verdict == "completed" {
				require.Contains(t, trip.documents(), line("a", "old"))
			}
		})
	}
}

func TestTheSameNumberWithAnotherBodyIsNotTakenForAPart(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	f.missingFor = 0
	f.publishes(c.doc(1, "a", "x", part(0, 2)), c.doc(1, "b", "banana"), c.doc(2, "a", "x", part(1, 2)), c.doc(2, "b", "blueberry"), c.completed(4))
	// The worker is done, and two numbers never come.
	f.exec(`SELECT moves.drain($1, $2, 5)`, c.session, c.try)
	f.config.Workers = 1
	f.runs()
	f.becomes(c, "failed")
	require.Empty(t, f.brokenDocuments())
	require.Equal(t, "lost in transit", one[string](f.fixture, `SELECT reason FROM scheduler_runs WHERE id = $1`, c.session))
	require.Equal(t, `a | stored | token of x | hash of x | {"to x"} | 2 | - | x + x`, c.documents(), "the first of each number counts")
}

func TestAPartThatWasGivenUpFailsItsDocumentAndLetsTheCursorMove(t *testing.T) {
	f := newFixture(t)
	for name, order := range map[string][]int{"first": {0, 1, 2}, "last": {1, 2, 0}, "between": {1, 0, 2}} {
		t.Run(name, func(t *testing.T) {
			c := f.synced(map[string]string{"a": "old"}).again()
			for _, i := range order {
				m := c.doc(int64(i+1), "a", "new", part(i, 3))
				if i == 0 {
					require.NoError(t, f.countPoison(ctx, delivery{request: m, try: c.of(), msg: silentMessage{}}, errPoison))
				} else {
					c.stores(m)
				}
			}
			c.stores(c.checkpoint(4, 3))
			require.Equal(t, "3", c.page())
			c.stores(c.completed(4))
			require.Equal(t, "completed", c.verdict())
			require.Contains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String())
			require.Contains(t, c.documents(), "a | failed |  |")
			require.Contains(t, c.documents(), "| old")
		})
	}
}

func TestADocumentOfPartsWithoutChunksIsWhole(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	empty := func(p *internalpb.DocumentPart) { p.Chunks, p.ChunkCount, p.FirstChunk = nil, 1, 1 }
	c.stores(c.doc(2, "a", "x", part(1, 2), empty))
	c.stores(c.doc(1, "a", "x", part(0, 2), func(p *internalpb.DocumentPart) { p.ChunkCount = 1 }), c.completed(2))
	require.Equal(t, "completed", c.verdict())
	require.Equal(t, line("a", "x"), c.documents())
	require.Zero(t, f.count("run_messages WHERE waits_for IS NOT NULL"))
}

// TestWhateverASenderSaysNoDocumentShowsLessThanAllItsChunks draws messages of a sender that says anything, delivers them in any
// order, and gives up what is refused, as the service does. The run ends, or the look for lost documents ends it.
func TestWhateverASenderSaysNoDocumentShowsLessThanAllItsChunks(t *testing.T) {
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := f.synced(map[string]string{"a": "old", "b": "old"}).again()
		cursor := one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector)
		total := rapid.Int64Range(0, 6).Draw(rt, "total")
		said := map[int64]string{}
		honest := true
		for range rapid.IntRange(1, 14).Draw(rt, "messages") {
			no := rapid.Int64Range(1, 6).Draw(rt, "no")
			var m *internalpb.DocumentProcessRequest
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "id")
			switch rapid.IntRange(0, 10).Draw(rt, "kind") {
			case 0:
				m = c.completed(total)
			case 1:
				m = c.checkpoint(no, int(no))
			case 2:
				m = c.doc(no, id, "whole")
			case 3:
				m = c.doc(no, id, "whole", touched("hash of "+rapid.SampledFrom([]string{"old", "whole", "piece"}).Draw(rt, "kept"), "token"))
			default:
				parts := rapid.IntRange(1, 3).Draw(rt, "parts")
				at := rapid.IntRange(0, parts-1).Draw(rt, "part")
				m = c.doc(no, id, "piece", part(at, parts))
				p := m.GetPart()
				switch rapid.IntRange(0, 7).Draw(rt, "instead") {
				case 0:
					p.Error, p.Chunks = "unreadable", nil
				case 1:
					p.KeepChunks, p.Chunks = true, nil
				case 2:
					p.Chunks = nil
				}
				if p.Parts > 1 && rapid.IntRange(0, 3).Draw(rt, "lies") == 0 {
					p.ChunkCount = rapid.Int32Range(0, 4).Draw(rt, "chunk count")
					p.FirstChunk = rapid.Int32Range(0, 3).Draw(rt, "first chunk")
				}
			}
			body := fmt.Sprint(m.Body)
			if m.Number > 0 && said[m.Number] != "" && said[m.Number] != body || m.Number > total {
				honest = false
			}
			said[m.Number] = body
			d := delivery{request: m, try: c.of(), msg: silentMessage{}}
			// Half of them as if nothing were refused on the way in: the store is right by itself.
			var err error
			if rapid.Bool().Draw(rt, "checked") {
				err = check(m)
			}
			if err != nil {
				d.request = c.message(m.Number)
			} else {
				err = f.process(ctx, []delivery{d})
			}
			if err != nil {
				require.False(rt, isWait(err) || isHeld(err), "%v", err)
				require.NoError(rt, f.countPoison(ctx, d, err))
			}
			require.Empty(rt, f.brokenDocuments())
		}
		require.NoError(rt, inTime(f.CompleteStored))
		state := one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector)
		if c.verdict() == "completed" && state != cursor && honest {
			// The cursor has moved: every document up to there is whole, or has failed. A checkpoint's page is its number.
			require.Zero(rt, one[int64](f, `SELECT count(*) FROM run_messages WHERE try_id = $1 AND waits_for IS NOT NULL
				AND no <= coalesce(($2::jsonb->>'page')::bigint, no)`, c.try, state))
		}
		if c.verdict() == "running" {
			overs["released"](c)
		}
		require.NoError(rt, inTime(f.Sweep))
		require.Empty(rt, f.brokenDocuments())
	})
}

func TestANumberBeyondTheTotalThatWasSaidIsRefusedAndFailsTheRun(t *testing.T) {
	f := newFixture(t)
	c := f.syncing()
	c.stores(c.completed(2), c.doc(1, "a", "apple"))
	d := delivery{request: c.doc(3, "b", "banana"), try: c.of(), msg: silentMessage{}}
	err := f.process(ctx, []delivery{d})
	require.ErrorIs(t, err, errRefused)
	require.Equal(t, int64(1), c.stored())
	require.Equal(t, "running", c.verdict(), "two messages, one beyond the total, are not everything")
	require.NoError(t, f.countPoison(ctx, d, err))
	require.Equal(t, "failed", c.verdict())
	require.Equal(t, line("a", "apple"), c.documents())
}

func TestAForeignPartThatIsGivenUpDoesNotEndTheWaitingOfADocument(t *testing.T) {
	f := newFixture(t)
	for name, order := range map[string][]int{"after": {0, 1}, "before": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			c := f.synced(map[string]string{"a": "old"}).again()
			for _, i := range order {
				if i == 0 {
					c.stores(c.doc(1, "a", "half", part(0, 2)))
					continue
				}
				// It says that it is of the same numbers, but of another document.
				foreign := delivery{request: c.doc(2, "b", "x", part(1, 2)), try: c.of(), msg: silentMessage{}}
				require.NoError(t, f.countPoison(ctx, foreign, errPoison))
			}
			c.stores(c.checkpoint(3, 3))
			c.stores(c.completed(3))
			require.Equal(t, "completed", c.verdict())
			require.NotContains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String(),
				"a was never whole: it is fetched again")
			require.NotEqual(t, "3", c.page())
			require.Contains(t, c.documents(), line("a", "old"))
		})
	}
}

func TestPartsOfWhichOneSaysAnErrorOrThatTheContentStandsMakeNoDocument(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*internalpb.DocumentPart)
		why    string
	}{
		"error": {func(p *internalpb.DocumentPart) { p.Error, p.Chunks = "unreadable", nil }, "error beside parts 2: a document that failed has 1"},
		"keep":  {func(p *internalpb.DocumentPart) { p.KeepChunks, p.Chunks = true, nil }, "keep_chunks beside parts 2: a document whose content stands has 1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			trip := f.synced(map[string]string{"a": "old"}).again()
			f.publishes(trip.doc(1, "a", "new", part(0, 2), c.change), trip.doc(2, "a", "new", part(1, 2)), trip.checkpoint(3, 9), trip.completed(3))
			f.runs()
			f.becomes(trip, "completed")
			f.empties()
			require.Len(t, f.letters(), 1)
			require.Contains(t, trip.documents(), "a | failed |  |")
			require.Contains(t, trip.documents(), c.why)
			require.Contains(t, trip.documents(), "| old", "what is stored stays")
			require.Contains(t, one[string](f.fixture, `SELECT state::text FROM connectors WHERE id = $1`, trip.connector), trip.session.String())
		})
		t.Run(name+", stored together", func(t *testing.T) {
			f := newFixture(t)
			trip := f.synced(map[string]string{"a": "old"}).again()
			trip.stores(trip.doc(1, "a", "new", part(0, 2), c.change), trip.doc(2, "a", "new", part(1, 2)), trip.checkpoint(3, 9), trip.completed(3))
			require.Equal(t, line("a", "old"), trip.documents())
			require.NotContains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, trip.connector), trip.session.String())
		})
	}
}

// other makes a part one that says the first number of a document, and something else of it.
func other(parts, chunk int32) func(*internalpb.DocumentPart) {
	return func(p *internalpb.DocumentPart) {
		p.FirstNo, p.Parts, p.ChunkCount, p.FirstChunk = 1, parts, parts, chunk
	}
}

func TestAChunkOfAnotherClaimMakesUpForNoneThatIsMissing(t *testing.T) {
	f := newFixture(t)
	without := func(p *internalpb.DocumentPart) { p.Chunks = nil }
	for name, together := range map[string]bool{"one by one": false, "together": true} {
		t.Run(name, func(t *testing.T) {
			c := f.synced(map[string]string{"a": "old"}).again()
			all := []*internalpb.DocumentProcessRequest{c.doc(3, "a", "OTHER", other(3, 1)), c.doc(1, "a", "new", part(0, 2)), c.doc(2, "a", "new", part(1, 2), without)}
			if together {
				c.stores(all...)
			} else {
				for _, m := range all {
					c.stores(m)
				}
			}
			c.stores(c.completed(3))
			require.Equal(t, "completed", c.verdict())
			require.Equal(t, line("a", "old"), c.documents())
			require.NotContains(t, one[string](f, `SELECT state::text FROM connectors WHERE id = $1`, c.connector), c.session.String())
		})
	}
}

func TestADocumentShowsNoChunkOfAPartThatSaysItsNumberAndSomethingElse(t *testing.T) {
	f := newFixture(t)
	for name, together := range map[string]bool{"one by one": false, "together": true} {
		t.Run(name, func(t *testing.T) {
			c := f.syncing()
			stray, whole := c.doc(3, "a", "OTHER", other(3, 1)), c.doc(1, "a", "new")
			if together {
				c.stores(stray, whole)
			} else {
				c.stores(stray)
				c.stores(whole)
			}
			require.Equal(t, line("a", "new"), c.documents())
			require.Empty(t, f.brokenDocuments())
		})
	}
}
