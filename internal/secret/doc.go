// Package secret keeps the secrets of connectors' configurations: it seals them into envelopes, so that they are
// encrypted in Postgres and on the wire, and opens them again in the one worker that uses them.
//
//	keys.go      the keys, and where they come from
//	envelope.go  one secret, sealed for one field of one connector
//	fields.go    which fields of a configuration are secret: the tag `secret:"true"` of a source's Config
//	config.go    a whole configuration: seal, open, seal anew with another key
//	clean.go     what is taken out of a text before people or logs may have it
//	spell.go     known secrets in it, however they are spelled
//	mask.go      URLs in it
//	whole.go     headers, keys, tokens, elements and flags in it
//	pairs.go     names with values in it
//	typed.go     what was typed where a URL belongs
//	walk.go      how these read a text once
//
// An envelope is text: "enc:v1:", the id of its key, ":", and the nonce and the AES-256-GCM ciphertext in base64. The
// connector's number and the field's name are authenticated with it: an envelope that was copied into another connector, or
// another field, does not open. So the author of a connector cannot make a worker send another connector's secret to an account
// of the author's.
package secret
