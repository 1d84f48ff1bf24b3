// Package graph is a thin typed client of the part of Microsoft Graph that OneDrive and Teams need.
//
//	client.go    requests, links, who may be asked
//	errors.go    what a refusal means: gone, refused, resync, permanent
//	page.go      pages, element by element
//	item.go      drive items
//	message.go   channel messages
//	download.go  content by pre-authenticated URL
//	read.go      a file's text, or why there is none
//	version.go   what a content is called
//	source.go    what a source is given: credentials, options
//
// It is given a client that already authorises, keeps to the quota and retries what was refused for now
// (429, 503, 5xx, resets before an answer). What is left to this package is what only the reader of a body can see:
// an answer that is cut short.
package graph
