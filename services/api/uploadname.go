package api

import (
	"mime"
	"mime/multipart"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/echomind/sync/services/api/internal/problem"
)

// maxFileName is how many bytes the name of an uploaded file has at most, as in most file systems.
const maxFileName = 255

// partName is the name of the file in a part. Of a path that its client gives, what stands behind the last slash or backslash.
func partName(part *multipart.Part) (string, error) {
	_, said, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	given, has := said["filename"]
	if err != nil || !has {
		return "", problem.Invalid("body", "has a part that is no file; send files alone, each with a filename")
	}
	name, wrong := fileName(given[strings.LastIndexAny(given, `/\`)+1:])
	if wrong != "" {
		return "", problem.Invalid("body.file", "the file's name "+wrong)
	}
	return name, nil
}

// fileName is a name as it is kept, in NFC, or what is wrong with it. No name is part of a path: it is only shown, and looked up.
func fileName(given string) (name, wrong string) {
	if !utf8.ValidString(given) {
		return "", "is not in UTF-8"
	}
	name = norm.NFC.String(given)
	switch {
	case strings.TrimFunc(name, func(r rune) bool { return !isVisible(r) }) == "":
		return "", "is empty"
	case len(name) > maxFileName:
		return "", "has more than 255 bytes"
	case name[0] == '.':
		return "", "begins with a dot"
	case strings.TrimSpace(name) != name:
		return "", "begins or ends with a space"
	case strings.ContainsAny(name, `/\`):
		return "", "has a slash or a backslash in it"
	case strings.ContainsFunc(name, func(r rune) bool { return !isVisible(r) && !unicode.Is(unicode.Zs, r) && !isJoiner(r) }):
		return "", "has a character that nobody sees in it"
	}
	return name, ""
}

func isVisible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r) && r != unicode.ReplacementChar && r != '\u2800' && // the blank of braille
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) // fillers of Hangul and others
}

// isJoiner says whether a character without a shape is part of a word, as in Persian, or of an emoji.
func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }
