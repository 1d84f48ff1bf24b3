package problem

import "fmt"

// NoUploads is of files that nobody keeps.
func NoUploads() *Problem {
	return kind("not-set-up", "Not set up", 501, "This installation keeps no uploaded files.", "Have the operator set UPLOAD_URL, where the API and the chunker run: docs/file.md.")
}

// NotForm is of an upload that is no form.
func NotForm() *Problem {
	return kind("media-type", "Not a form", 415, "The body is no multipart/form-data with a boundary.", "Send files as a form does: curl -F file=@notes.md")
}

// IsForm is of a file that is replaced by a form.
func IsForm() *Problem {
	return kind("media-type", "A form", 415, "The body is a form, and a file that is put is its content alone.", "Send the content: curl -T notes.md. To POST forms are sent.")
}

// PartOfFile refuses a request that sends a part of a file.
func PartOfFile() *Problem {
	p := kind("invalid", "Not valid", 400, "A part of a file is sent, and a file is put as a whole.", "Send all of it, without Content-Range: curl -T notes.md, without -C.")
	p.Errors = []Field{{"header.Content-Range", "must not be there"}}
	return p
}

// LongHead is of a part of a form with a file whose headers are longer than those of any.
func LongHead() *Problem {
	p := kind("invalid", "Not valid", 400, "The headers of a part of the form have more than 16 KiB.", "Give each part its name and filename alone.")
	p.Errors = []Field{{"body.file", "has headers of more than 16 KiB"}}
	return p
}

// Encoded is of a part of a form whose content is not sent as it is.
func Encoded() *Problem {
	return kind("media-type", "Encoded", 415, "A part of the form is sent in another Content-Transfer-Encoding than binary.", "Send the content as it is: curl -F file=@notes.md, without an encoder.")
}

// Unread is of a file that nobody can read.
func Unread(name, mediaType string) *Problem {
	return kind("media-type", "Not readable", 415, fmt.Sprintf("%.300q is %s, of which no text is read.", name, mediaType), "Upload HTML, Markdown, plain text, CSV or JSON.")
}

// TooSlow is of a request that takes too long to come.
func TooSlow(detail string, cause error) *Problem {
	p := kind("too-slow", "Too slow", 408, detail, "Send it again, in smaller parts where the line is slow.")
	p.cause = cause
	return p
}

// ManyUploads is of an upload that waited in vain for others.
func ManyUploads() *Problem {
	p := kind("unavailable", "Not available now", 503, "Too many uploads are under way.", "Try again after Retry-After.")
	p.retryAfter = 10
	return p
}

// BucketAway is of uploaded files that cannot be kept.
func BucketAway(cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, "Where uploaded files are kept does not answer. Nothing was changed.", "Try again after Retry-After.")
	p.retryAfter, p.cause = 5, cause
	return p
}
