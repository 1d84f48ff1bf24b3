package contract

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// sender is a subscriber that sends documents to the real semantic, and makes mistakes.
type sender struct {
	*trip
	broker *broker
}

func newSender(t *testing.T) *sender {
	t.Setenv("SEMANTIC_MAX_TRIES", "1") // what fails once fails for good here
	server := testkit.NATS(t)
	s := &sender{trip: newTrip(t), broker: newBroker(t, server.URL())}
	s.serveSemantic(server.URL(), anybody)
	testkit.Eventually(t, soon, func() error {
		_, err := s.broker.js.Stream(ctx, "DEAD_LETTERS")
		return err
	})
	return s
}

func (s *sender) begin() {
	s.Helper()
	s.again()
	require.Equal(s, "true", s.says(pickUp))
}

// sends publishes messages, each a number and a body. In a body, fields of the envelope come first and win: "try=… {…}".
func (s *sender) sends(messages ...string) {
	s.Helper()
	version := ask[string](s.database, `SELECT config_version::text FROM connectors WHERE id = $1`, s.id)
	for _, m := range messages {
		connector, session, try, version := strconv.Itoa(int(s.id)), s.run.String(), s.try.String(), version
		var drop []string
		first, body, _ := strings.Cut(m, " ")
		for !strings.HasPrefix(body, "{") {
			var option string
			option, body, _ = strings.Cut(body, " ")
			name, value, _ := strings.Cut(option, "=")
			switch name {
			case "connector":
				connector = value
			case "session":
				session = value
			case "try":
				try = value
			case "version":
				version = value
			case "without":
				drop = append(drop, value)
			}
		}
		number, err := strconv.ParseInt(first, 10, 64)
		require.NoError(s, err)
		headers, message, err := envelope(connector, session, try, version, number, body)
		require.NoError(s, err)
		for _, what := range drop {
			switch what {
			case "try":
				message = strings.Replace(message, `"try":"`+try+`"`, `"try":""`, 1)
			case "headers":
				headers = nil
			}
		}
		s.broker.publish(headers, message)
		s.broker.empties("DOCUMENT_PROCESS") // each by itself: several are handled at once
	}
}

func part(id string, first, parts, chunk, chunks int) string {
	return fmt.Sprintf(`{"part": {"sourceId": %q, "firstNo": %d, "parts": %d, "firstChunk": %d, "chunkCount": %d, "versionToken": "v", "chunks": [{"text": "text %d of %s"}]}}`,
		id, first, parts, chunk, chunks, chunk, id)
}

func document1(id string, no int) string { return fmt.Sprint(no, " ", part(id, no, 1, 0, 1)) }

func completed(total int) string {
	return fmt.Sprintf(`0 {"completed": {"total": %d, "newState": {"cursor": "new"}, "listingWhole": true}}`, total)
}

// outcome is what came of it: the run, the cursor, the documents, and how many dead letters there are.
func (s *sender) outcome() string {
	s.Helper()
	stream, err := s.broker.js.Stream(ctx, "DEAD_LETTERS")
	require.NoError(s, err)
	letters := stream.CachedInfo().State.Msgs
	require.NoError(s, stream.Purge(ctx))
	return fmt.Sprintf("%s | %s | %s | %d", s.stands(s.id),
		ask[string](s.database, `SELECT state::text FROM connectors WHERE id = $1`, s.id),
		ask[string](s.database, `SELECT coalesce(string_agg(source_id || ' ' || status, ', ' ORDER BY source_id), 'nothing')
			FROM documents WHERE connector_id = $1 AND status NOT IN ('deleted', 'partial')`, s.id), letters) // those are swept
}

const (
	untouched = fetching + " | {} | nothing | 0"
	asItWas   = "ACTIVE schedule | completed | {} | "
	moved     = `ACTIVE schedule | completed | {"cursor": "new"} | `
	fails     = "ERROR retry | failed: transient failure | {} | "
)

func TestWhatComesOfMistakesOnTheWire(t *testing.T) {
	s := newSender(t)
	other := uuid.NewString()
	nul := strings.Replace(document1("a", 1), "text 0 of a", `a \u0000 b`, 1)
	for about, m := range map[string]struct {
		sent    []string
		outcome string
	}{
		"nothing wrong":                 {[]string{document1("a", 1), completed(1)}, moved + "a stored | 0"},
		"sync completed first":          {[]string{completed(1), document1("a", 1)}, moved + "a stored | 0"},
		"each twice":                    {[]string{completed(1), document1("a", 1), document1("a", 1), completed(1)}, moved + "a stored | 0"},
		"no configuration said":         {[]string{"1 version=0 " + part("a", 1, 1, 0, 1), completed(1)}, moved + "a stored | 0"},
		"no headers":                    {[]string{"1 without=headers " + part("a", 1, 1, 0, 1), completed(1)}, moved + "a stored | 0"},
		"another try":                   {[]string{"1 try=" + other + " " + part("a", 1, 1, 0, 1), "0 try=" + other + completed(1)[1:]}, untouched},
		"another session":               {[]string{"1 session=" + other + " " + part("a", 1, 1, 0, 1), "0 session=" + other + completed(1)[1:]}, untouched},
		"another connector":             {[]string{"1 connector=99999 " + part("a", 1, 1, 0, 1), completed(1)}, asItWas + "nothing | 1"},
		"another configuration":         {[]string{"1 version=99999 " + part("a", 1, 1, 0, 1), completed(1)}, asItWas + "nothing | 1"},
		"no try but in the headers":     {[]string{"1 without=try " + part("a", 1, 1, 0, 1), completed(1)}, asItWas + "nothing | 1"},
		"no try anywhere":               {[]string{"1 without=try without=headers " + part("a", 1, 1, 0, 1), completed(1)}, fetching + " | {} | nothing | 1"},
		"a NUL in a text":               {[]string{nul, completed(1)}, asItWas + "nothing | 1"},
		"no source_id":                  {[]string{document1("", 1), completed(1)}, asItWas + "nothing | 1"},
		"an empty body":                 {[]string{"1 {}", completed(1)}, asItWas + "nothing | 1"},
		"a number that is no part":      {[]string{"1 " + part("a", 2, 1, 0, 1), completed(1)}, asItWas + "nothing | 1"},
		"no parts":                      {[]string{"1 " + part("a", 1, 0, 0, 1), completed(1)}, asItWas + "nothing | 1"},
		"a document's number is 0":      {[]string{"0 " + part("a", 1, 1, 0, 1)}, fails + "nothing | 1"},
		"a negative number":             {[]string{"-1 " + part("a", 1, 1, 0, 1)}, fetching + " | {} | nothing | 1"},
		"a negative total":              {[]string{completed(-1)}, fails + "nothing | 1"},
		"a total below what is stored":  {[]string{document1("a", 1), document1("b", 2), completed(1)}, fails + "a stored, b stored | 1"},
		"a number above the total":      {[]string{completed(1), document1("b", 2)}, fails + "nothing | 1"},
		"a number left out":             {[]string{document1("a", 1), document1("c", 3), completed(2)}, fails + "a stored, c stored | 1"},
		"a total that is too large":     {[]string{document1("a", 1), completed(2)}, fetching + " | {} | a stored | 0"},
		"two totals: the first counts":  {[]string{completed(1), completed(2), document1("a", 1)}, moved + "a stored | 0"},
		"a number twice":                {[]string{document1("a", 1), document1("b", 1), completed(1)}, moved + "a stored | 0"},
		"a document twice":              {[]string{document1("a", 1), "2 " + part("a", 2, 1, 0, 1), completed(2)}, moved + "a stored | 0"},
		"deleted, then put":             {[]string{`1 {"deletion": {"sourceId": "a"}}`, document1("a", 2), completed(2)}, moved + "a stored | 0"},
		"put, then deleted, overtaken":  {[]string{`2 {"deletion": {"sourceId": "a"}}`, document1("a", 1), completed(2)}, moved + "nothing | 0"},
		"nothing to keep":               {[]string{`1 {"part": {"sourceId": "a", "firstNo": 1, "parts": 1, "keepChunks": true, "contentHash": "x"}}`, completed(1)}, moved + "a failed | 0"},
		"a checkpoint that overtakes":   {[]string{`2 {"checkpoint": {"state": {"cursor": 2}}}`}, untouched},
		"a checkpoint after a gap":      {[]string{document1("a", 1), `3 {"checkpoint": {"state": {"cursor": 3}}}`}, fetching + " | {} | a stored | 0"},
		"a checkpoint that is no state": {[]string{`1 {"checkpoint": {}}`, completed(1)}, `ACTIVE schedule | skipped: nothing had changed | {"cursor": "new"} | nothing | 1`},
		"listing 0":                     {[]string{`1 {"seen": {"sourceIds": ["a"], "listing": 0}}`, completed(1)}, asItWas + "nothing | 1"},
		"a part that is never sent":     {[]string{"1 " + part("a", 1, 3, 0, 3), "2 " + part("a", 1, 3, 1, 3), completed(2)}, asItWas + "nothing | 0"},
		"parts that do not agree":       {[]string{"1 " + part("a", 1, 2, 0, 2), "2 " + part("a", 1, 3, 1, 3), completed(2)}, asItWas + "nothing | 0"},
	} {
		s.begin()
		s.sends(m.sent...)
		assert.Equal(t, m.outcome, s.outcome(), about)
	}
}

func TestADocumentBeforeThePickUpIsDropped(t *testing.T) {
	s := newSender(t)
	s.again()
	s.sends(document1("early", 1), completed(1))
	require.Equal(t, claimed+" | {} | nothing | 0", s.outcome())
	require.Equal(t, "true", s.says(pickUp))
	s.sends(document1("a", 1), completed(1))
	require.Equal(t, moved+"a stored | 0", s.outcome())
}
