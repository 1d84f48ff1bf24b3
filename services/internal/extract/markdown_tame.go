package extract

import "bytes"

// isTameMarkdown tells whether source keeps within the bounds of what the parser is given.
func isTameMarkdown(source []byte) bool {
	if len(source) > maxMarkdownBytes {
		return false
	}
	marks, size, cost, lines, columns := 0, 0, 0, 0, 0
	for line := range bytes.Lines(source) {
		lines++
		line = bytes.TrimRight(line, "\r\n")
		if containers(line) > maxMarkdownNesting {
			return false
		}
		if len(bytes.Trim(line, "|:- \t")) == 0 {
			columns = max(columns, bytes.Count(line, []byte("|")))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			cost += marks * size
			marks, size = 0, 0
		}
		marks += pairing(line)
		size += len(line)
		if cost+marks*size > maxMarkdownCost {
			return false
		}
	}
	return lines*columns <= maxMarkdownCells
}

// containers bounds how many quotes and list items a line can open or continue.
func containers(line []byte) int {
	markers, blanks := 0, 0
	for i, c := range line {
		switch {
		case c >= '0' && c <= '9':
		case (c == '.' || c == ')') && i > 0 && line[i-1] >= '0' && line[i-1] <= '9':
			markers++
		case c == ' ' || c == '\t':
			blanks++
		case c == '>':
			markers++
		case (c == '-' || c == '*' || c == '+') && i+1 < len(line) && (line[i+1] == ' ' || line[i+1] == '\t'):
			markers++
		default:
			return markers + blanks/2
		}
	}
	return markers + blanks/2
}

func pairing(line []byte) int {
	n := 0
	for _, c := range line {
		switch c {
		case '[', ']', '*', '_', '`', '~', '<', '!':
			n++
		}
	}
	return n
}
