package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/internal/secret"
)

const (
	// What is shown of the texts of a letter, in bytes: a service writes reasons of up to 1,000, and a document is named by up to 2,048.
	maxReason, maxSourceID, maxSubject = 2000, 2048, 500
	// maxMessage is how large a message is shown, in bytes as it is encoded: secrets are masked in it, which costs a second for a large one.
	maxMessage = mostBytes
)

// DeadLetter is what is shown of a message that a service gave up on. Null is what it does not say.
type DeadLetter struct {
	ID               int64      `json:"id" doc:"Its sequence in the stream of dead letters."`
	Version          string     `json:"version" doc:"In quotes its ETag, the If-Match of a change."`
	Subject          string     `json:"subject" doc:"Where the original was published to."`
	Reason           string     `json:"reason" doc:"Why it was given up."`
	Tries            int64      `json:"tries" doc:"How often a service began it."`
	Deliveries       int64      `json:"deliveries" doc:"How often the broker handed it out."`
	OriginalSequence int64      `json:"original_sequence" doc:"Where the original was in its stream."`
	Session          *uuid.UUID `json:"session" nullable:"true" doc:"The run that it is of."`
	Number           int64      `json:"number" doc:"The message's number within the run; 0 is a trigger, or the last message."`
	ConnectorID      *int32     `json:"connector_id"`
	SourceID         *string    `json:"source_id" doc:"The document's name in the source."`
	FirstAt          *time.Time `json:"first_at" doc:"When the original arrived."`
	LastAt           time.Time  `json:"last_at" doc:"When it was given up."`
	SizeBytes        int64      `json:"size_bytes"`
	CutFromBytes     int64      `json:"cut_from_bytes" doc:"How large it was before it was cut; 0: it is whole."`
}

// DeadLetterDetails is one of them, with what it carries, and what has become of that since.
type DeadLetterDetails struct {
	DeadLetter
	Connector *LetterConnector `json:"connector" doc:"As it is now; null where there is none."`
	Document  *LetterDocument  `json:"document" doc:"As it is now; null where there is none."`
	Message   Object           `json:"message" nullable:"true" doc:"The message, with secrets masked; null where it cannot be shown."`
	Problem   *string          `json:"problem" doc:"Why it cannot."`
}

// LetterConnector is the connector of a dead letter.
type LetterConnector struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Status string `json:"status" enum:"PENDING,SYNCING,ACTIVE,ERROR,DISABLED"`
}

// LetterDocument is the document of a dead letter.
type LetterDocument struct {
	Status    string    `json:"status" enum:"stored,failed,deleted,partial"`
	Error     *string   `json:"error"`
	UpdatedAt time.Time `json:"updated_at"`
}

// OneDeadLetter is one dead letter.
type OneDeadLetter struct {
	ETag string `header:"ETag" doc:"Says that it is this letter: If-Match of a change."`
	Body DeadLetterDetails
}

// clipped is the beginning of a text, as valid UTF-8. It is masked before it is cut, and what is masked is bounded, too.
func clipped(text string, most int, mask func(string) string) string {
	text = strings.ToValidUTF8(line.Cut(text, 4*most), "?")
	if mask != nil {
		text = mask(text)
	}
	return line.Cut(text, most)
}

func viewLetter(l deadletter.Letter) DeadLetter {
	d := DeadLetter{
		ID: int64(l.ID), Version: letterVersion(l), Subject: clipped(l.Subject, maxSubject, secret.Text), Reason: clipped(l.Reason, maxReason, secret.Text), Tries: int64(l.Tries), Deliveries: int64(l.Deliveries),
		OriginalSequence: int64(l.Sequence), Number: l.Number, ConnectorID: given(l.ConnectorID), FirstAt: utc(l.FirstAt), LastAt: l.LastAt.UTC(),
		SizeBytes: int64(l.Size), CutFromBytes: int64(l.CutFrom),
	}
	if session, err := uuid.Parse(l.Session); err == nil {
		d.Session = &session
	}
	if l.SourceID != "" {
		name := clipped(l.SourceID, maxSourceID, shown)
		d.SourceID = &name
	}
	return d
}

// viewCarried is a letter with what it carries, as the command line shows it.
func viewCarried(l read) DeadLetterDetails {
	d := DeadLetterDetails{DeadLetter: viewLetter(l.Letter)}
	if l.content.Problem == nil && len(l.payload) > maxMessage {
		problem := fmt.Sprintf("the message is larger than is shown here; `echomind dlq show %d -o json` shows it", l.ID)
		d.Problem = &problem
		return d
	}
	carried := deadletter.Carry(l.Letter, l.content, l.payload)
	d.Message, d.Problem = Object(carried.Message), carried.Problem // how it begins may be a secret, which nothing can find there
	return d
}
