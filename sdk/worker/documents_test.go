//go:build !race

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

func TestALargeDocumentTravelsInPartsThatFit(t *testing.T) {
	f := newFixture(t)
	large := note(2)
	large.Title, large.Links = "Large", []string{"note/1"}
	large.Chunks = nil
	for i := range 60 { // 60 × 60 KiB = 3.5 MiB
		large.Chunks = append(large.Chunks, chunk.Chunk{
			Text: strings.Repeat(fmt.Sprintf("%03d ", i), 15<<10), HeadingPath: []string{"A", "B"}, Start: int64(i), End: int64(i + 1),
		})
	}
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		for _, d := range []worker.Document{note(1), large, note(3)} {
			if err := run.Put(ctx, d); err != nil {
				return err
			}
		}
		return nil
	})
	sent := f.sent(c)
	n := int(sent[0].GetCompleted().Total)
	f.whole(c, n) // sent checks each one's size
	require.Greater(t, n, 8)
	require.Equal(t, "note/3", sent[int64(n)].GetPart().SourceId)
	var chunks []chunk.Chunk
	for no := int64(2); no < int64(n); no++ {
		p := sent[no].GetPart()
		require.Equal(t, int64(2), p.FirstNo)
		require.Equal(t, int32(n-2), p.Parts)
		require.Equal(t, int32(60), p.ChunkCount)
		require.Equal(t, int32(len(chunks)), p.FirstChunk)
		require.Equal(t, []any{"note/2", "Large", "v1", "aa", "note/1"}, []any{
			p.SourceId, p.Title, p.VersionToken, p.ContentHash, p.Links[0],
		})
		for _, w := range p.Chunks {
			chunks = append(chunks, chunk.Chunk{Text: w.Text, HeadingPath: w.HeadingPath, Start: w.Start, End: w.End})
		}
	}
	require.Equal(t, large.Chunks, chunks)
}

func TestADocumentOfManySmallChunksTravelsInMessagesWithABoundedNumberOfThem(t *testing.T) {
	f := newFixture(t)
	tiny := note(1)
	tiny.Chunks = make([]chunk.Chunk, 2*topology.MaxMessageChunks+1)
	for i := range tiny.Chunks {
		tiny.Chunks[i] = chunk.Chunk{Text: "a", Start: int64(i), End: int64(i + 1)}
	}
	c := f.inside(func(ctx context.Context, run *worker.Run) error { return run.Put(ctx, tiny) })
	sent := f.whole(c, 3)
	for no, first := range []int{0, topology.MaxMessageChunks, 2 * topology.MaxMessageChunks} {
		p := sent[int64(no+1)].GetPart()
		require.Equal(t, []int32{3, int32(len(tiny.Chunks)), int32(first)}, []int32{p.Parts, p.ChunkCount, p.FirstChunk})
		require.Len(t, p.Chunks, min(topology.MaxMessageChunks, len(tiny.Chunks)-first))
	}
}

func TestADocumentThatNeedsTooManyMessagesIsRefused(t *testing.T) {
	f := newFixture(t)
	endless := note(1)
	for range 32 {
		endless.Links = append(endless.Links, strings.Repeat("x", 4000))
	}
	endless.Chunks = slices.Repeat([]chunk.Chunk{{Text: strings.Repeat("x", worker.MaxChunkBytes)}}, 7*topology.MaxDocumentParts)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		errorIs(t, run.Put(ctx, endless), worker.ErrDocument, "need more than 10000 messages")
		return run.Put(ctx, note(1))
	})
	f.whole(c, 1)
}

func TestABadDocumentIsRefusedByTheNameOfItsFieldAndTakesNoNumber(t *testing.T) {
	f := newFixture(t)
	big := strings.Repeat("x", 200<<10)
	manyLinks := make([]string, 40)
	for i := range manyLinks {
		manyLinks[i] = big[:4000]
	}
	bad := map[string]func(*worker.Document){
		"SourceID is empty":             func(d *worker.Document) { d.SourceID = "" },
		"SourceID has 204800 bytes":     func(d *worker.Document) { d.SourceID = big },
		"SourceID \"a\\x00\" holds":     func(d *worker.Document) { d.SourceID = "a\x00" },
		"SourceID \"a\\xff\" holds":     func(d *worker.Document) { d.SourceID = "a\xff" },
		"VersionToken has 204800 bytes": func(d *worker.Document) { d.VersionToken = big },
		"VersionToken \"\\x00\" holds":  func(d *worker.Document) { d.VersionToken = "\x00" },
		"ContentHash has 204800 bytes":  func(d *worker.Document) { d.ContentHash = big },
		"ContentHash \"\\x00\" holds":   func(d *worker.Document) { d.ContentHash = "\x00" },
		"Links \"\\x00\" holds":         func(d *worker.Document) { d.Links = []string{"\x00"} },
		"Links is empty":                func(d *worker.Document) { d.Links = []string{""} },
		"Links has 204800 bytes":        func(d *worker.Document) { d.Links = []string{big} },
		"Links have 160160 bytes":       func(d *worker.Document) { d.Links = manyLinks },
		"Memo has 8193 bytes: at most":  func(d *worker.Document) { d.Memo = json.RawMessage(`"` + big[:worker.MaxMemoBytes-1] + `"`) },
		"Memo is not valid JSON":        func(d *worker.Document) { d.Memo = json.RawMessage(`{"a"`) },
		"Memo is not UTF-8":             func(d *worker.Document) { d.Memo = json.RawMessage("\"\xff\"") },
		"Memo holds a NUL character":    func(d *worker.Document) { d.Memo = json.RawMessage(`["\u0000"]`) },
		"Memo is nested 101 levels": func(d *worker.Document) {
			d.Memo = json.RawMessage(strings.Repeat("[", 101) + strings.Repeat("]", 101))
		},
	}
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		for reason, spoil := range bad {
			d := note(1)
			spoil(&d)
			err := run.Put(ctx, d)
			if !errorIs(t, err, worker.ErrDocument, reason) {
				return err
			}
		}
		both := note(1)
		both.VersionToken, both.ContentHash = "\x00", big
		errorIs(t, run.Put(ctx, both), worker.ErrDocument, "VersionToken")
		errorIs(t, run.Put(ctx, both), worker.ErrDocument, "ContentHash")
		errorIs(t, run.Touch(ctx, worker.Document{}), worker.ErrDocument, "SourceID")
		errorIs(t, run.Delete(ctx, "a\x00"), worker.ErrDocument, "SourceID")
		return run.Put(ctx, note(1))
	})
	f.whole(c, 1)
}

func TestATextThatIsTooLargeToBeStoredFailsItsDocumentAndNotTheSync(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		many, big := note(1), note(2)
		many.Chunks = make([]chunk.Chunk, worker.MaxChunks+1)
		big.Chunks[0].Text = strings.Repeat("x", worker.MaxChunkBytes+1)
		return errors.Join(run.Put(ctx, many), run.Put(ctx, big), run.Put(ctx, note(3)))
	})
	sent := f.whole(c, 3)
	for no, reason := range map[int64]string{1: "makes 100001 chunks, at most 100000 are stored", 2: "has 65537 bytes, at most 65536 are stored"} {
		p := sent[no].GetPart()
		require.Contains(t, p.Error, reason)
		require.Equal(t, []any{"", int32(1), int32(0), 0}, []any{p.VersionToken, p.Parts, p.ChunkCount, len(p.Chunks)})
	}
	require.Empty(t, sent[3].GetPart().Error)
}

func errorIs(t *testing.T, err, target error, text string) bool {
	t.Helper()
	ok := true
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v: does not say %q", err, text)
		ok = false
	}
	if target != nil && !strings.Contains(fmt.Sprint(err), target.Error()) {
		t.Errorf("%v is no %v", err, target)
		ok = false
	}
	return ok
}

func TestWhatOnlyPeopleReadIsCleanedAndCut(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		d := note(1)
		d.Title, d.URL, d.MediaType = "a\x00b\xff"+strings.Repeat("é", 1000), "u\x00", "m\x00"
		d.Chunks[0].Text, d.Chunks[0].HeadingPath = "x\x00y\xffz", []string{"\x00", "h\x00"}
		return run.Put(ctx, d)
	})
	p := f.whole(c, 1)[1].GetPart()
	require.True(t, strings.HasPrefix(p.Title, "ab\uFFFDé"))
	require.LessOrEqual(t, len(p.Title), worker.MaxTitleBytes)
	require.Equal(t, []any{"u", "m", "xy\uFFFDz", []string{"h"}}, []any{p.Url, p.MediaType, p.Chunks[0].Text, p.Chunks[0].HeadingPath})
}

func TestADocumentThatCouldNotBeReadHasNoTokenAndNoChunks(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		for i, reason := range []string{"encrypted", "\x00"} {
			d := note(i)
			d.Err = reason
			if err := run.Put(ctx, d); err != nil {
				return err
			}
		}
		return nil
	})
	sent := f.whole(c, 2)
	p := sent[1].GetPart()
	require.Equal(t, []any{"encrypted", "", "aa", 0, int32(0)}, []any{p.Error, p.VersionToken, p.ContentHash, len(p.Chunks), p.ChunkCount})
	require.NotEmpty(t, sent[2].GetPart().Error)
}

func TestTouchAndDeleteAreNumberedWithTheDocuments(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		touched := note(2)
		touched.Err = "ignored"
		for _, err := range []error{run.Put(ctx, note(1)), run.Touch(ctx, touched), run.Delete(ctx, "note/3")} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	sent := f.whole(c, 3)
	touch := sent[2].GetPart()
	require.Equal(t, []any{"note/2", true, "v1", "aa", "", int64(2), 0}, []any{
		touch.SourceId, touch.KeepChunks, touch.VersionToken, touch.ContentHash, touch.Error, touch.FirstNo, len(touch.Chunks),
	})
	require.Equal(t, "note/3", sent[3].GetDeletion().SourceId)
}

func TestAMemoTravelsCompactlyWithEachPartOfAPutATouchAndAFailure(t *testing.T) {
	f := newFixture(t)
	longest := `{"a":"` + strings.Repeat("x", worker.MaxMemoBytes-8) + `"}`
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		put, touched, failed, none := note(1), note(2), note(3), note(4)
		put.Chunks = nil
		for range 20 {
			put.Chunks = append(put.Chunks, chunk.Chunk{Text: strings.Repeat("x", worker.MaxChunkBytes)})
		}
		put.Memo = json.RawMessage(" { \"a\" : \"" + longest[6:len(longest)-1] + "\n}")
		touched.Memo, failed.Memo, failed.Err = json.RawMessage("null"), json.RawMessage(`[1e999, "<\\u0000"]`), "encrypted"
		none.Memo = json.RawMessage{}
		return errors.Join(run.Put(ctx, put), run.Touch(ctx, touched), run.Put(ctx, failed), run.Put(ctx, none))
	})
	sent := f.whole(c, 6)
	var memos []string
	for no := range int64(6) {
		memos = append(memos, string(sent[no+1].GetPart().GetMemo()))
	}
	require.Equal(t, []string{longest, longest, longest, "null", `[1e999,"<\\u0000"]`, ""}, memos)
}

func TestManySendersLeaveNoGap(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		var senders sync.WaitGroup
		for s := range 8 {
			senders.Go(func() {
				for i := range 50 {
					if err := run.Put(ctx, note(s*50+i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		senders.Wait()
		return nil
	})
	f.whole(c, 400)
}

func TestADocumentThatIsLeftOutBecauseItsContextHasEndedFailsTheRun(t *testing.T) {
	f := newFixture(t)
	for name, end := range map[string]error{"nil": nil, "skipped": worker.Skipped("so it seems")} {
		c := f.triggered()
		r := f.work(func(ctx context.Context, run *worker.Run) error {
			if err := run.Put(ctx, note(1)); err != nil {
				return err
			}
			hasty, cancel := context.WithCancel(ctx)
			cancel()
			if err := run.Put(hasty, note(2)); err == nil {
				t.Error("sent under a context that has ended")
			}
			return end
		})
		f.settled(c)
		require.NoError(t, r.stop())
		f.is(c, `status = 'ERROR' AND due_reason = 'retry' AND verdict = 'failed'`)
		require.NotContains(t, f.sent(c), int64(0), name)
	}
}

func TestWhatIsSentAfterTheHandlerReturnedIsRefused(t *testing.T) {
	f := newFixture(t)
	runs := make(chan *worker.Run, 1)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		runs <- run
		return run.Put(ctx, note(1))
	})
	run := await(t, "the run", runs)
	require.ErrorContains(t, run.Put(ctx, note(2)), "the handler has returned")
	require.ErrorContains(t, run.Touch(ctx, note(2)), "the handler has returned")
	require.ErrorContains(t, run.Delete(ctx, "note/2"), "the handler has returned")
	f.whole(c, 1)
}

// What is not UTF-8 grows when it is replaced, so a chunk of the size that is allowed would lose its end without a word.
func TestNothingOfAChunkThatFitsIsCut(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		d := note(1)
		d.Chunks[0].Text = strings.Repeat("\xffa", worker.MaxChunkBytes/2-1) + "z"
		return run.Put(ctx, d)
	})
	text := f.whole(c, 1)[1].GetPart().Chunks[0].Text
	require.Equal(t, strings.Repeat("?a", worker.MaxChunkBytes/2-1)+"z", text)
}
