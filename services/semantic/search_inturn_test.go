//go:build !race

package semantic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/internal/search"
)

func TestAReaderFindsTheirOwnTheirGroupsAndTheOrganisations(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, f *fixture) {
		f.synced(map[string]string{"of one": "zebra"})
		f.synced(map[string]string{"of two": "zebra"}, "user_id = 2")
		f.synced(map[string]string{"of the group": "zebra"}, "scope = 'group', scope_id = 'g', user_id = 1")
		f.synced(map[string]string{"of another group": "zebra"}, "scope = 'group', scope_id = 'h', user_id = 1")
		f.synced(map[string]string{"of all": "zebra"}, "scope = 'org', user_id = 2")
		for _, c := range []struct {
			reader Reader
			sees   []string
		}{
			{Reader{UserID: 1}, []string{"of one", "of all"}},
			{Reader{UserID: 2, Groups: []string{"g"}}, []string{"of two", "of the group", "of all"}},
			{Reader{UserID: 3, Groups: []string{"g", "h"}}, []string{"of the group", "of another group", "of all"}},
			{Reader{UserID: 3}, []string{"of all"}},
		} {
			require.ElementsMatch(t, c.sees, f.finds(c.reader, "zebra"), "%+v", c.reader)
		}
	})
}

func TestOwnerAndScopeAreTheLiveConnectors(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, f *fixture) {
		c := f.synced(map[string]string{"a": "zebra"})
		f.exec(`UPDATE connectors SET user_id = 2 WHERE id = $1`, c.connector)
		require.Empty(t, f.finds(Reader{UserID: 1}, "zebra"))
		f.brought()
		require.Empty(t, f.finds(Reader{UserID: 1}, "zebra"))
		require.Equal(t, []string{"a"}, f.finds(Reader{UserID: 2}, "zebra"))
		f.exec(`UPDATE connectors SET scope = 'org' WHERE id = $1`, c.connector)
		f.brought()
		require.Equal(t, []string{"a"}, f.finds(Reader{UserID: 1}, "zebra"))
	})
}

func TestADisabledConnectorIsStillSearchableAndADeletedOneIsNot(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, f *fixture) {
		c := f.synced(map[string]string{"a": "zebra"})
		f.exec(`SELECT moves.disable($1)`, c.connector)
		require.Equal(t, []string{"a"}, f.finds(Reader{UserID: 1}, "zebra"))
		f.exec(`DELETE FROM connectors WHERE id = $1`, c.connector)
		require.Empty(t, f.finds(Reader{UserID: 1}, "zebra"))
	})
}

func TestAHitSaysWhereItIs(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, f *fixture) {
		c := f.syncing()
		c.stores(c.doc(1, "a", "the zebra runs", func(p *internalpb.DocumentPart) {
			p.Title, p.Url = "Animals", "https://h/a"
			p.Chunks[0].HeadingPath, p.Chunks[0].Start, p.Chunks[0].End = []string{"Animals", "Zebra"}, 5, 19
		}))
		f.brought()
		hits, err := NewSearcher(f.pool, f.qdrant).Search(ctx, Reader{UserID: 1}, "zebra", 1)
		require.NoError(t, err)
		require.Len(t, hits, 1)
		require.Positive(t, hits[0].Score)
		require.WithinDuration(t, time.Now(), hits[0].Of.StoredAt, soon)
		hits[0].Score, hits[0].Of = 0, search.Origin{}
		require.Equal(t, Hit{
			ConnectorID: c.connector, Connector: "notes", SourceID: "a", Title: "Animals", URL: "https://h/a",
			HeadingPath: []string{"Animals", "Zebra"}, Text: "the zebra runs", Start: 5, End: 19,
		}, hits[0])
	})
}

func TestAnEmptyTextAndALimitOutOfRangeAreErrors(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, f *fixture) {
		s := NewSearcher(f.pool, f.qdrant)
		for _, text := range []string{"", " \t", "?!"} {
			_, err := s.Search(ctx, Reader{UserID: 1}, text, 1)
			require.ErrorContains(t, err, "at least one word", text)
		}
		_, err := s.Search(ctx, Reader{UserID: 1}, strings.Repeat("zebra ", MaxSearchBytes/6+1), 1)
		require.ErrorContains(t, err, "search text of 65538 bytes: must have at most 65536")
		_, err = s.Search(ctx, Reader{UserID: 1}, strings.Repeat("zebra ", MaxSearchBytes/6), 1)
		require.NoError(t, err, "the text of a chunk can be searched for")
		for _, limit := range []int{0, -1, MaxSearchLimit + 1} {
			_, err := s.Search(ctx, Reader{UserID: 1}, "zebra", limit)
			require.ErrorContains(t, err, "must be 1 to 100")
		}
		hits, err := s.Search(ctx, Reader{UserID: 1}, "zebra", MaxSearchLimit)
		require.NoError(t, err)
		require.NotNil(t, hits, "nothing found is an empty list in JSON, not null")
	})
}

func TestWhatHasNothingToDoWithTheTextIsNoHit(t *testing.T) {
	onEveryIndex(t, func(t *testing.T, f *fixture) {
		texts := map[string]string{"zebra": "the zebra runs over the hill", "synchronised": "folders are synchronised every hour"}
		for i := range 40 {
			texts[fmt.Sprint("page ", i)] = fmt.Sprintf("Page %d of the handbook tells of leases, queues and streams, chapter %d, with examples.", i, i*7)
		}
		f.synced(texts)
		require.Equal(t, []string{"zebra"}, f.finds(Reader{UserID: 1}, "zebra"))
		require.Equal(t, []string{"synchronised"}, f.finds(Reader{UserID: 1}, "synchronise"), "a part of a word is a relation")
		require.Empty(t, f.finds(Reader{UserID: 1}, "quetzalcoatlus"))
		require.Empty(t, f.finds(Reader{UserID: 1}, "Fresnel lamp polish"))
	})
}
