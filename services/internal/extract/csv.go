package extract

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/sdk/chunk"
)

const (
	csvSample = 32 << 10
	// csvGroupTokens keeps a group of rows, with its header, inside one chunk of default size.
	csvGroupTokens = 300
	// csvHeaderBytes and csvHeaderTokens are how much of the header is repeated with each group: rows have the most of it.
	csvHeaderBytes  = 500
	csvHeaderTokens = csvGroupTokens / 3
)

var csvDelimiters = []rune{',', ';', '\t', '|'}

// sniffCSV finds the delimiter of CSV (RFC 4180, and its dialects with other delimiters): the one that
// gives every record of the beginning the same number of fields. Unless CSV is expected it takes more
// evidence, since lines of prose may have a comma each: a header of short distinct names, and delimiters
// that are not followed by a space.
func sniffCSV(text []byte, expected bool) (rune, bool) {
	sample, cut := text, false
	if len(sample) > csvSample {
		sample, cut = sample[:csvSample], true
	}
	best, bestFields := rune(0), 1
	for _, delimiter := range csvDelimiters {
		if fields := csvFields(sample, cut, delimiter, expected); fields > bestFields {
			best, bestFields = delimiter, fields
		}
	}
	return best, best != 0
}

// csvFields is the number of fields per record, or 0 if text is not CSV with that delimiter.
func csvFields(sample []byte, cut bool, delimiter rune, expected bool) int {
	first, _, _ := bytes.Cut(sample, []byte("\n"))
	if !bytes.ContainsRune(first, delimiter) && !expected {
		return 0
	}
	r := csvReader(sample, delimiter)
	var header []string
	records := 0
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			// A sample may end inside a quoted field.
			if cut && records > 2 {
				break
			}
			return 0
		}
		if header == nil {
			header = append(header, record...)
		} else if len(record) != len(header) && !(cut && r.InputOffset() == int64(len(sample))) {
			return 0
		}
		records++
	}
	if len(header) < 2 || records < 2 && !expected {
		return 0
	}
	if !expected && (!namesColumns(header) || records < 3 && len(header) < 3 || isProse(sample, delimiter)) {
		return 0
	}
	return len(header)
}

func namesColumns(header []string) bool {
	seen := map[string]bool{}
	for _, h := range header {
		h = strings.TrimSpace(h)
		if h == "" || len(h) > 64 || strings.HasSuffix(h, ".") || seen[h] {
			return false
		}
		seen[h] = true
	}
	return true
}

func isProse(sample []byte, delimiter rune) bool {
	all := bytes.Count(sample, []byte(string(delimiter)))
	return 2*bytes.Count(sample, []byte(string(delimiter)+" ")) > all
}

func csvReader(text []byte, delimiter rune) *csv.Reader {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma = delimiter
	r.FieldsPerRecord = -1
	r.LazyQuotes = true
	r.ReuseRecord = true
	return r
}

// readCSV writes rows in groups, each with the header before it, so that no chunk holds values without
// the names of their columns.
func readCSV(text []byte, hint Hint, out *builder) error {
	delimiter, ok := sniffCSV(text, hint.kind() == mediaCSV)
	if !ok {
		out.block(string(text))
		return nil
	}
	r := csvReader(text, delimiter)
	first, err := r.Read()
	if err != nil {
		return fmt.Errorf("read CSV header: %w", err)
	}
	header := csvLine(first)
	repeated := cutString(header, csvHeaderBytes)
	for chunk.Tokens(repeated) > csvHeaderTokens {
		repeated = cutString(repeated, len(repeated)*3/4)
	}
	group := []byte(header)
	rows, weight := 0, chunk.Tokens(header)
	for total := 0; ; total++ {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read CSV record %d: %w", total+2, err)
		}
		if total == MaxCSVRows {
			return fmt.Errorf("%w: more than %d CSV records", ErrTooLarge, MaxCSVRows)
		}
		line := csvLine(record)
		if strings.Trim(line, "| ") == "" {
			continue
		}
		tokens := chunk.Tokens(line)
		if rows > 0 && weight+tokens > csvGroupTokens {
			out.block(string(group))
			out.endSection()
			if !out.mayRepeat(len(repeated)) {
				repeated = ""
			}
			group, rows, weight = append(group[:0], repeated...), 0, chunk.Tokens(repeated)
		}
		if out.err != nil {
			return out.err
		}
		group = append(append(group, '\n'), line...)
		rows, weight = rows+1, weight+tokens
	}
	out.block(string(group))
	return out.err
}

func csvLine(record []string) string {
	var b strings.Builder
	for i, field := range record {
		if i > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(line.One(field))
	}
	return b.String()
}
