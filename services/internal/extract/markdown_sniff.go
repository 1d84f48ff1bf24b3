package extract

import (
	"bytes"
)

const markdownSample = 16 << 10

// markdownNeeded is the score from which text counts as Markdown. Any text is valid CommonMark, so there
// is no proof: structure is weighed, and the name only lowers or raises the bar.
func markdownNeeded(expected string) int {
	switch expected {
	case mediaMarkdown:
		return 0
	case "":
		return 3
	}
	// The name says it is something else, say a script whose comments look like headings.
	return 6
}

// markdownScore adds up the kinds of Markdown structure in the beginning of text. Kinds that other formats
// have too (lists, bold) count less than those they seldom have (tables, fences, front matter).
func markdownScore(text []byte) int {
	var heading, list, bold, link, fence, table, setext int
	score := 0
	if _, _, ok := frontMatter(text); ok {
		score += 2
	}
	blank, lists := true, 0
	var previous []byte
	for line := range bytes.Lines(text[:min(len(text), markdownSample)]) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
		case isATXHeading(line) && blank:
			heading = 2
		case bytes.HasPrefix(line, []byte("```")), bytes.HasPrefix(line, []byte("~~~")):
			fence = 2
		case isListItem(line):
			if lists++; lists > 1 {
				list = 1
			}
		case len(previous) > 0 && len(line) > 2 && len(bytes.Trim(line, "|:- ")) == 0 && bytes.IndexByte(line, '|') >= 0:
			table = 3
		case len(previous) > 0 && len(line) > 2 && (len(bytes.Trim(line, "=")) == 0 || len(bytes.Trim(line, "-")) == 0):
			setext = 2
		}
		if bytes.Contains(line, []byte("](")) {
			link = 2
		}
		if bytes.Count(line, []byte("**")) > 1 || bytes.Count(line, []byte("`")) > 1 {
			bold = 1
		}
		blank, previous = len(line) == 0, line
	}
	return score + heading + list + bold + link + fence + table + setext
}

func isATXHeading(line []byte) bool {
	rest := bytes.TrimLeft(line, "#")
	level := len(line) - len(rest)
	return level >= 1 && level <= 6 && len(rest) > 1 && rest[0] == ' '
}

func isListItem(line []byte) bool {
	if len(line) < 3 {
		return false
	}
	rest := bytes.TrimLeft(line, "0123456789")
	if len(rest) < len(line) {
		return len(rest) > 1 && (rest[0] == '.' || rest[0] == ')') && rest[1] == ' '
	}
	return bytes.IndexByte([]byte("-*+"), line[0]) >= 0 && line[1] == ' '
}

// frontMatter parts the metadata block at the beginning (between lines of --- as in Jekyll, or +++ as in
// Hugo) from the rest, and reads its title.
func frontMatter(text []byte) (title string, rest []byte, ok bool) {
	first, body, found := bytes.Cut(text, []byte("\n"))
	fence := string(bytes.TrimSpace(first))
	if !found || fence != "---" && fence != "+++" {
		return "", text, false
	}
	keys := 0
	for at := 0; at < len(body); {
		line := body[at:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end+1]
		}
		at += len(line)
		trimmed := bytes.TrimSpace(line)
		if string(trimmed) == fence {
			return title, body[at:], keys > 0
		}
		key, value, isPair := bytes.Cut(line, []byte{':'})
		if fence == "+++" {
			key, value, isPair = bytes.Cut(line, []byte{'='})
		}
		if isPair {
			keys++
		}
		if isPair && string(bytes.TrimRight(key, " ")) == "title" {
			title = unquote(string(bytes.TrimSpace(value)))
		}
		if at > markdownSample {
			break
		}
	}
	return "", text, false
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
