package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/testonly/testkit"
)

const (
	document = "../../../../docs/contract.md"
	// begin is the heading of the steps; every fenced block behind it is one.
	begin = "## Step by step"
)

// block is a fenced block of the document.
type block struct {
	kind, text string
	line       int
}

// blocks are the fenced blocks behind a heading, up to the next one of its rank.
func blocks(t *testing.T, heading string) (found []block) {
	t.Helper()
	page, err := os.ReadFile(document)
	require.NoError(t, err)
	before, after, there := strings.Cut(string(page), "\n"+heading+"\n")
	require.True(t, there, heading)
	var open *block
	for i, line := range strings.Split(after, "\n") {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{kind: kind, line: strings.Count(before, "\n") + i + 3}
		case fence:
			found, open = append(found, *open), nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "## "):
			return found
		}
	}
	require.Nil(t, open, "a block is not closed")
	return found
}

// reader carries out the steps.
type reader struct {
	*database
	user, subscriber *terminal
	broker           *broker
	connector        string
	seen             map[string]int // kinds of steps
}

func TestEachStepOfTheDocumentDoesWhatItSays(t *testing.T) {
	d := newDatabase(t)
	d.exec(`DELETE FROM connector_types WHERE name = 'shelf'`) // a step's
	server := testkit.NATS(t)
	d.serve(server.URL(), anybody)
	r := &reader{
		database: d, user: openTerminal(t, d.login(people)), subscriber: openTerminal(t, d.login(subscriber)),
		broker: newBroker(t, server.URL()), seen: map[string]int{},
	}
	steps := blocks(t, begin)
	require.Greater(t, len(steps), 40)
	var answer []string
	var look string // what the step before this one has looked at, and nothing else
	for _, step := range steps {
		t.Logf("line %d: %s\n%s", step.line, step.kind, step.text)
		r.seen[step.kind]++
		if step.kind != "answer" {
			require.Empty(t, answer, "line %d: the document does not say what the step before this one answers", step.line)
		}
		switch step.kind {
		case "sql user":
			answer, look = r.user.types(step.text), ""
			if onlyLooks(step.text) {
				look = step.text
			}
			if strings.Contains(step.text, `AS connector \gset`) {
				r.connector = r.user.get("connector")
			}
		case "sql subscriber":
			answer = r.subscriber.types(step.text)
		case "nats":
			answer = r.nats(step.text)
		case "answer":
			r.compare(step, answer, look)
			answer, look = nil, ""
			continue
		default:
			t.Fatalf("line %d: a block of kind %q is no step", step.line, step.kind)
		}
	}
	require.Empty(t, answer, "the last step")
	for _, kind := range []string{"sql user", "sql subscriber", "nats", "answer"} {
		require.Positive(t, r.seen[kind], kind)
	}
}

var variable = regexp.MustCompile(`:'?([a-z][a-z_]*)\b'?`)

// fill puts in what psql's variables stand for.
func (r *reader) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		return r.subscriber.get(variable.FindStringSubmatch(name)[1])
	})
}

// nats carries out the lines of a block, each a verb and its words, or a message with its body in the lines behind it.
func (r *reader) nats(text string) (answer []string) {
	r.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := 0; i < len(lines); i++ {
		verb, rest := words(lines[i])
		switch verb {
		case "consumer":
			require.Len(r, rest, 3)
			r.broker.makeConsumer(rest[0], rest[1], rest[2])
		case "next":
			answer = append(answer, r.next())
		case "ack":
			r.broker.ack()
		case "empty":
			r.broker.empties(rest[0])
		case "publish": // in full: headers, an empty line, the message
			headers, j := map[string]string{}, i+1
			for ; lines[j] != ""; j++ {
				name, value, found := strings.Cut(lines[j], ": ")
				require.True(r, found, lines[j])
				headers[name] = r.fill(value)
			}
			r.sent(r.broker.publish(headers, r.fill(strings.Join(lines[j+1:], "\n"))))
			i = len(lines)
		case "message": // the same, without what is the same in each
			number, err := strconv.ParseInt(rest[0], 10, 64)
			require.NoError(r, err)
			headers, message, err := envelope(r.subscriber.get("connector"), r.subscriber.get("session"), r.subscriber.get("try"),
				r.subscriber.get("config_version"), number, r.fill(strings.Join(rest[1:], " ")))
			require.NoError(r, err)
			r.sent(r.broker.publish(headers, message))
		default:
			r.Fatalf("%q is no step", lines[i])
		}
	}
	return answer
}

func (r *reader) sent(seq uint64) { r.subscriber.set("seq", strconv.FormatUint(seq, 10)) }

// next takes the next message, and makes psql's variables of it.
func (r *reader) next() string {
	r.Helper()
	m := r.broker.next()
	r.subscriber.set("connector", strconv.Itoa(int(m.ConnectorId)))
	r.subscriber.set("session", m.ChunkingSession)
	r.subscriber.set("config_version", strconv.FormatInt(m.ConfigVersion, 10))
	config, err := wire.JSON(m.Config)
	require.NoError(r, err)
	state, err := wire.JSON(m.State)
	require.NoError(r, err)
	return fmt.Sprintf("type_name %s, due_reason %s, config %s, state %s", m.TypeName, m.DueReason, compact(config), compact(state))
}

func compact(object []byte) string {
	var fields map[string]any
	if err := json.Unmarshal(object, &fields); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// onlyLooks says whether SQL changes nothing, so that it can be asked again.
func onlyLooks(sql string) bool {
	for line := range strings.Lines(sql) {
		if !strings.HasPrefix(line, "SELECT ") || strings.Contains(line, "moves.") || strings.Contains(line, `\gset`) {
			return false
		}
	}
	return true
}

// compare compares what a step has said with what the document says that it says. What only looks comes true soon, as does a line
// that begins with #, which is about the connector.
func (r *reader) compare(step block, answer []string, look string) {
	r.Helper()
	var want []string
	var stands []string
	for line := range strings.Lines(step.text) {
		line = strings.TrimSpace(line)
		if about, is := strings.CutPrefix(line, "# "); is {
			stands = append(stands, about)
		} else if line != "" {
			want = append(want, r.fillAnswer(line))
		}
	}
	if look != "" {
		testkit.Eventually(r, soon, func() error {
			if answer = r.user.types(look); !slices.Equal(answer, want) {
				return fmt.Errorf("line %d: %q, the document says %q", step.line, answer, want)
			}
			return nil
		})
	}
	require.Equal(r, want, answer, "line %d", step.line)
	for _, about := range stands {
		testkit.Eventually(r, soon, func() error {
			if now := r.standing(); now != about {
				return fmt.Errorf("line %d: %q, the document says %q", step.line, now, about)
			}
			return nil
		})
	}
}

func (r *reader) fillAnswer(line string) string {
	for _, name := range []string{"connector", "session", "old_session", "old_try"} {
		if strings.Contains(line, ":"+name) {
			line = strings.ReplaceAll(line, ":"+name, r.subscriber.get(name))
		}
	}
	return line
}

// standing is where the connector is, and what came of the last run that has ended.
func (r *reader) standing() (text string) {
	err := r.pool.QueryRow(ctx, `SELECT concat('connector ', c.status, ', due: ' || c.due_reason,
			'; ledger: ' || (SELECT concat_ws(', ', r.status, r.reason) FROM runs r WHERE r.connector_id = c.id
				ORDER BY r.completed_at DESC LIMIT 1))
		FROM connectors c WHERE c.id = $1`, r.connector).Scan(&text)
	if err != nil {
		return err.Error()
	}
	return text
}
