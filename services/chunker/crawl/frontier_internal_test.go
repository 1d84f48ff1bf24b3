package crawl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// queued counts the pages to read, and the bytes of their URLs.
func (f *frontier) queued() (pages, bytes int) {
	for _, level := range f.levels {
		for _, e := range level {
			pages, bytes = pages+1, bytes+len(e.url)
		}
	}
	return pages, bytes
}

func TestAFrontierHoldsBoundedBytesOfURLs(t *testing.T) {
	f := newFrontier(MaxMaxDepth, MaxMaxPages)
	long := strings.Repeat("a", maxSourceIDBytes-10)
	for i := range 2 * maxURLBytes / maxSourceIDBytes {
		f.offer(fmt.Sprintf("%09d/%s", i, long), i%MaxMaxDepth, func(string) bool { return true })
	}
	pages, bytes := f.queued()
	require.True(t, f.full)
	require.LessOrEqual(t, bytes+pages*entryBytes, maxURLBytes)
	require.Greater(t, bytes, maxURLBytes/10*9, "as many as there is memory for")
	require.Len(t, f.seen, pages, "what is not read is not remembered as read")
}

func TestAFrontierRemembersOfWhatIsNotReadItsHashAlone(t *testing.T) {
	f := newFrontier(MaxMaxDepth, MaxMaxPages)
	long := strings.Repeat("a", maxSourceIDBytes-10)
	for i := range maxURLBytes / maxSourceIDBytes * 4 {
		f.offer(fmt.Sprintf("%09d/%s", i, long), 1, func(string) bool { return false })
	}
	require.False(t, f.full)
	require.Equal(t, maxURLBytes-seenBytes*len(f.seen), f.left)
	require.True(t, f.seen.has("000000007/"+long))
	require.False(t, f.seen.has("7/"+long))
}

func TestWhatIsReadGivesItsMemoryBackButForAHash(t *testing.T) {
	f := newFrontier(MaxMaxDepth, MaxMaxPages)
	for i := range 1000 {
		f.offer(fmt.Sprintf("https://site.example/%060d", i), i%2, func(string) bool { return true })
	}
	require.True(t, f.addCanonical("https://site.example/named", "https://site.example/waiting"))
	for level := range 2 {
		for e, ok := f.next(level); ok; e, ok = f.next(level) {
			f.giveBack(e)
		}
		require.False(t, f.hasMore(level))
		f.endLevel(level)
		require.Zero(t, cap(f.levels[level]), "nothing of it is held")
	}
	waiting := len("https://site.example/waiting") + waitBytes
	require.Equal(t, maxURLBytes-1001*seenBytes-waiting, f.left)
}

func TestLinksLeaveRoomForCanonicalPages(t *testing.T) {
	f := newFrontier(MaxMaxDepth, MaxMaxPages)
	long := strings.Repeat("a", maxSourceIDBytes-10)
	for i := 0; !f.full; i++ {
		f.offer(fmt.Sprintf("%09d/%s", i, long), 1, func(string) bool { return true })
	}
	require.True(t, f.addCanonical("https://site.example/"+long, "https://site.example/"+long+"?"))
}

func TestTheLargestCrawlHasMemoryForOrdinaryURLs(t *testing.T) {
	f := newFrontier(MaxMaxDepth, MaxMaxPages)
	for i := range 2 * MaxMaxPages {
		f.offer(fmt.Sprintf("https://site.example/%060d", i), 1, func(string) bool { return true })
	}
	require.False(t, f.full)
}
