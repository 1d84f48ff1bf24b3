package semantic

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/sdk/lifecycle"
)

const (
	// maxSourceIDBytes is what the documents table takes.
	maxSourceIDBytes = 2048
	// The limits of what a document says of itself, as the kit keeps them and docs/contract.md tells them.
	maxTitleBytes = 1024
	maxURLBytes   = 4096
	maxTokenBytes = 2048
	maxChunkBytes = 64 << 10
)

// errDocument says that a part is refused because of what it says of its document. Only that document fails.
var errDocument = errors.New("the document is refused")

// decode checks a message; before that nothing on the wire is trusted. With an error, the delivery still names its session and
// number where they are known, so that the run can count it. Its request then has no body; with errDocument it has a body that only
// identifies the document.
func decode(msg jetstream.Msg) (delivery, error) {
	d := delivery{msg: msg}
	request := &internalpb.DocumentProcessRequest{}
	err := fits(msg.Data())
	if err == nil {
		err = wire.Unmarshal(msg.Data(), request)
	}
	if err != nil {
		d.request, d.try = fromHeaders(msg)
		return d, fmt.Errorf("decode DocumentProcessRequest: %w", err)
	}
	if d.try, err = tryOf(request.ChunkingSession, request.Try); err != nil {
		d.request, d.try = fromHeaders(msg)
		return d, err
	}
	d.request = request
	if err := check(request); err != nil {
		p := request.GetPart()
		if request.Body = nil; errors.Is(err, errDocument) {
			request.Body = &internalpb.DocumentProcessRequest_Part{Part: &internalpb.DocumentPart{
				SourceId: p.SourceId, FirstNo: p.FirstNo, Parts: p.Parts, ChunkCount: p.ChunkCount, Listing: p.Listing, Memo: p.Memo,
			}}
		}
		return d, err
	}
	return d, nil
}

// fits refuses a message that is larger than any that is sent, before it is parsed.
func fits(data []byte) error {
	if len(data) > topology.MaxMessageBytes {
		return fmt.Errorf("it has %d bytes, more than %d", len(data), topology.MaxMessageBytes)
	}
	return nil
}

// tryOf reads the try that a message belongs to.
func tryOf(session, try string) (lifecycle.Try, error) {
	run, err := uuid.Parse(session)
	if err != nil {
		return lifecycle.Try{}, fmt.Errorf("chunking_session %q: %w", session, err)
	}
	id, err := uuid.Parse(try)
	if err != nil {
		return lifecycle.Try{}, fmt.Errorf("try %q, which the pick-up minted: %w", try, err)
	}
	return lifecycle.Try{Run: run, ID: id}, nil
}

// fromHeaders reads the try and number of an undecodable message from its headers; nil where they are missing.
func fromHeaders(msg jetstream.Msg) (*internalpb.DocumentProcessRequest, lifecycle.Try) {
	try, err := tryOf(msg.Headers().Get(topology.HeaderSession), msg.Headers().Get(topology.HeaderTry))
	if err != nil {
		return nil, lifecycle.Try{}
	}
	no, err := strconv.ParseInt(msg.Headers().Get(topology.HeaderNumber), 10, 64)
	if err != nil || no < 0 {
		return nil, lifecycle.Try{}
	}
	return &internalpb.DocumentProcessRequest{ChunkingSession: try.Run.String(), Try: try.ID.String(), Number: no}, try
}

// check refuses what cannot have been sent by the worker kit, and what Postgres could not store.
func check(r *internalpb.DocumentProcessRequest) error {
	switch body := r.Body.(type) {
	case *internalpb.DocumentProcessRequest_Part:
		return checkPart(r.Number, body.Part)
	case *internalpb.DocumentProcessRequest_Deletion:
		if r.Number < 1 {
			return fmt.Errorf("number %d: a deletion's is at least 1", r.Number)
		}
		return checkSourceID(body.Deletion.GetSourceId())
	case *internalpb.DocumentProcessRequest_Checkpoint:
		if r.Number < 1 {
			return fmt.Errorf("number %d: a checkpoint's is at least 1", r.Number)
		}
		_, err := canonicalListing(body.Checkpoint.GetListing())
		return err
	case *internalpb.DocumentProcessRequest_Seen:
		return checkSeen(r.Number, body.Seen)
	case *internalpb.DocumentProcessRequest_Completed:
		if r.Number != 0 || body.Completed.GetTotal() < 0 {
			return fmt.Errorf("sync completed has number %d and total %d: must be 0, and not negative",
				r.Number, body.Completed.GetTotal())
		}
		return nil
	}
	return errors.New("body is empty")
}

func checkPart(number int64, p *internalpb.DocumentPart) error {
	switch {
	case number < 1:
		return fmt.Errorf("number %d: a document's is at least 1", number)
	case p.Parts < 1 || p.FirstNo < 1 || number < p.FirstNo || number >= p.FirstNo+int64(p.Parts):
		return fmt.Errorf("number %d is none of %d parts from %d", number, p.Parts, p.FirstNo)
	case p.Parts > topology.MaxDocumentParts:
		return fmt.Errorf("parts %d: a document has %d at most", p.Parts, topology.MaxDocumentParts)
	case len(p.Chunks) > topology.MaxMessageChunks:
		return fmt.Errorf("%d chunks: a message brings %d at most; send more parts", len(p.Chunks), topology.MaxMessageChunks)
	case p.ChunkCount < 0 || p.ChunkCount > topology.MaxDocumentChunks:
		return fmt.Errorf("chunk_count %d: a document has 0 to %d", p.ChunkCount, topology.MaxDocumentChunks)
	case p.FirstChunk < 0 || int(p.FirstChunk)+len(p.Chunks) > topology.MaxDocumentChunks:
		return fmt.Errorf("chunks %d to %d: a document has 0 to %d", p.FirstChunk, int(p.FirstChunk)+len(p.Chunks), topology.MaxDocumentChunks)
	}
	if err := checkSourceID(p.SourceId); err != nil {
		return err
	}
	texts := append([]string{p.Title, p.Url, p.MediaType, p.ContentHash, p.VersionToken, p.Error}, p.Links...)
	for _, c := range p.Chunks {
		texts = append(append(texts, c.Text), c.HeadingPath...)
	}
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 {
			return fmt.Errorf("document %q holds a NUL byte", p.SourceId)
		}
	}
	if err := errors.Join(contradiction(p), limits(p)); err != nil {
		return fmt.Errorf("%w: %w", errDocument, err)
	}
	return nil
}

// contradiction says why the fields of a part exclude each other.
func contradiction(p *internalpb.DocumentPart) error {
	last := int(p.FirstChunk) + len(p.Chunks)
	switch {
	case p.Parts > 1 && p.Error != "":
		return fmt.Errorf("error beside parts %d: a document that failed has 1", p.Parts)
	case p.Parts > 1 && p.KeepChunks:
		return fmt.Errorf("keep_chunks beside parts %d: a document whose content stands has 1", p.Parts)
	case p.KeepChunks && len(p.Chunks) > 0:
		return fmt.Errorf("keep_chunks beside %d chunks: send none", len(p.Chunks))
	case p.Error != "" || p.KeepChunks:
		return nil
	case p.Parts == 1 && (p.FirstChunk != 0 || last != int(p.ChunkCount)):
		return fmt.Errorf("chunk_count %d, first_chunk %d and %d chunks: a document of 1 part brings all of them, from 0",
			p.ChunkCount, p.FirstChunk, len(p.Chunks))
	case last > int(p.ChunkCount) && len(p.Chunks) > 0:
		return fmt.Errorf("chunks %d to %d: chunk_count says %d", p.FirstChunk, last-1, p.ChunkCount)
	}
	return nil
}

// limits says which limits of docs/contract.md the part exceeds.
func limits(p *internalpb.DocumentPart) error {
	var problems []error
	most := func(field, text string, bytes int) {
		if len(text) > bytes {
			problems = append(problems, fmt.Errorf("%s has %d bytes: at most %d", field, len(text), bytes))
		}
	}
	most("title", p.Title, maxTitleBytes)
	most("url", p.Url, maxURLBytes)
	most("version_token", p.VersionToken, maxTokenBytes)
	if err := wire.CheckMemo(p.Memo); err != nil {
		problems = append(problems, fmt.Errorf("memo %w", err))
	}
	for _, l := range p.Links {
		if len(problems) < maxProblems {
			most("a link", l, maxURLBytes)
		}
	}
	for _, c := range p.Chunks {
		if len(problems) < maxProblems {
			most("a chunk's text", c.Text, maxChunkBytes)
		}
	}
	return errors.Join(problems...)
}

func checkSourceID(id string) error {
	if id == "" || len(id) > maxSourceIDBytes || strings.IndexByte(id, 0) >= 0 {
		return fmt.Errorf("source_id has %d bytes: must have 1 to %d, none of them NUL", len(id), maxSourceIDBytes)
	}
	return nil
}
