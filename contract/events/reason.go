package events

import "strings"

// Other is the code of a reason in somebody's own words, which stay in the ledger.
const Other = "other"

// prefixes are the codes of reasons that name something: `calendar `, `condition ` and the like.
var prefixes = []struct{ begins, code string }{
	{"calendar `", "calendar"},
	{"condition `", "condition_not_met"},
	{"already completed for ", "already_completed"},
	{"upstream ", "upstream_did_not_complete"},
}

// ReasonCode is the code of a reason as the ledger has it: its words joined by _, where it is one of known; a code for those that name a calendar, a
// condition, a period or another connector; Other for what a store or a job has said in its own words; empty for none.
func ReasonCode(reason string, known func(reason string) bool) string {
	if reason == "" {
		return ""
	}
	for _, p := range prefixes {
		if strings.HasPrefix(reason, p.begins) {
			return p.code
		}
	}
	if !known(reason) {
		return Other
	}
	return strings.ReplaceAll(reason, " ", "_")
}
