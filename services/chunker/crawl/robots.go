package crawl

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// robots is what one robots.txt asks of this crawler (RFC 9309). The zero value allows everything.
//
// It is written here because github.com/temoto/robotstxt departs from the RFC where it hurts: one bad line
// discards the whole file, Disallow wins a tie, and percent-encoding is compared as written.
//
// A rule without a wildcard is looked up by the path's beginnings, so that half a megabyte of them costs what one costs.
// Those with wildcards are tried one by one, and are bounded.
type robots struct {
	// begins and ends hold the rules without wildcards: those that the path begins with, and those that it is ("…$").
	// The value says whether they allow.
	begins, ends map[string]bool
	wild         []robotsRule
	// tooMany says that there are more with wildcards than can be tried for every link: nothing is allowed then.
	tooMany bool
	// delay is the Crawl-delay, an extension that many sites use. 0: none.
	delay time.Duration
}

const (
	// maxWildRules is several times what large sites have.
	maxWildRules = 1000
	// maxWildWork bounds the bytes of a path that rules with wildcards look at together, 1000 rules at 131 bytes each: a path
	// beyond it is not allowed. It takes 0.4 ms. Rules that begin otherwise than the path do not look.
	maxWildWork = 128 << 10
)

type robotsRule struct {
	allow bool
	// parts are what stands between the wildcards; anchored means that the pattern ended with "$".
	parts    []string
	anchored bool
	length   int
}

// parseRobots reads the groups that address token (a product token like "EchoMindSync", compared without
// regard to case), or those of "*" if none does. Lines that it cannot read are skipped.
func parseRobots(body []byte, token string) *robots {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	var mine, everyone robots
	var named, toMe, toAll, inRules bool
	for _, line := range bytes.FieldsFunc(body, func(r rune) bool { return r == '\n' || r == '\r' }) {
		key, value, ok := robotsLine(string(line))
		if !ok {
			continue
		}
		if key == "user-agent" {
			if inRules {
				toMe, toAll, inRules = false, false, false
			}
			switch agent := productToken(value); {
			case value == "*":
				toAll = true
			case agent != "" && strings.EqualFold(agent, token):
				toMe, named = true, true
			}
			continue
		}
		if key != "allow" && key != "disallow" && key != "crawl-delay" {
			continue
		}
		inRules = true
		if toMe {
			mine.add(key, value)
		}
		if toAll {
			everyone.add(key, value)
		}
	}
	if named {
		return &mine
	}
	return &everyone
}

func robotsLine(line string) (key, value string, ok bool) {
	line, _, _ = strings.Cut(line, "#")
	key, value, ok = strings.Cut(line, ":")
	key = strings.ToLower(strings.TrimSpace(key))
	if key == "useragent" {
		key = "user-agent"
	}
	return key, strings.TrimSpace(value), ok
}

// productToken is the leading part of a user agent that names the product (RFC 9309, 2.2.1).
func productToken(agent string) string {
	end := strings.IndexFunc(agent, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '-')
	})
	if end < 0 {
		return agent
	}
	return agent[:end]
}

func (r *robots) add(key, value string) {
	if key == "crawl-delay" {
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
			r.delay = time.Duration(min(seconds, 3600) * float64(time.Second))
		}
		return
	}
	if value == "" {
		return
	}
	rule := robotsRule{allow: key == "allow"}
	if value, rule.anchored = strings.CutSuffix(value, "$"); rule.anchored && strings.HasSuffix(value, "*") {
		rule.anchored = false
	}
	for part := range strings.SplitSeq(value, "*") {
		if part == "" && len(rule.parts) > 0 {
			continue // "**" is "*"
		}
		rule.parts = append(rule.parts, normalizeEscapes(part, robotsPlain))
	}
	if strings.HasSuffix(value, "*") {
		rule.parts = append(rule.parts, "")
	}
	if rule.parts[0] != "" && rule.parts[0][0] != '/' {
		rule.parts[0] = "/" + rule.parts[0]
	}
	rule.length = len(strings.Join(rule.parts, "*"))
	if rule.anchored {
		rule.length++
	}
	r.keep(rule)
}

// keep puts a rule where it is looked for. Of two that say the same of one path the one that allows stands.
func (r *robots) keep(rule robotsRule) {
	switch at := &r.begins; {
	case len(rule.parts) == 1:
		if rule.anchored {
			at = &r.ends
		}
		if *at == nil {
			*at = map[string]bool{}
		}
		(*at)[rule.parts[0]] = (*at)[rule.parts[0]] || rule.allow
	case len(r.wild) == maxWildRules:
		r.tooMany = true
	default:
		r.wild = append(r.wild, rule)
	}
}

// robotsPlain are the bytes that stay as they are in a rule and in the path it is compared with.
const robotsPlain = "/:@!$&'()*+,;=?"

// allows tells whether a path with its query may be fetched: the longest matching rule decides, and of
// equally long ones the one that allows (RFC 9309, 2.2.2).
func (r *robots) allows(pathAndQuery string) bool {
	if pathAndQuery == "/robots.txt" {
		return true
	}
	if r.tooMany {
		return false
	}
	p := normalizeEscapes(pathAndQuery, robotsPlain)
	allowed, longest := true, -1
	for end := len(p); end > 0 && longest < 0 && len(r.begins) > 0; end-- {
		if allow, is := r.begins[p[:end]]; is {
			allowed, longest = allow, end
		}
	}
	if allow, is := r.ends[p]; is {
		allowed, longest = allow, len(p)+1
	}
	work := 0
	for i := range r.wild {
		rule := &r.wild[i]
		if rule.length < longest || (rule.length == longest && !rule.allow) || !strings.HasPrefix(p, rule.parts[0]) {
			continue
		}
		if work += len(p) - len(rule.parts[0]); work > maxWildWork {
			return false
		}
		if !rule.matches(p) {
			continue
		}
		allowed, longest = rule.allow, rule.length
	}
	return allowed
}

// matches takes the leftmost place for each part, so it is linear in the path for each part and gives up
// as soon as the path is used up.
func (r *robotsRule) matches(p string) bool {
	rest, ok := strings.CutPrefix(p, r.parts[0])
	if !ok {
		return false
	}
	if len(r.parts) == 1 {
		return !r.anchored || rest == ""
	}
	middle, last := r.parts[1:len(r.parts)-1], r.parts[len(r.parts)-1]
	for _, part := range middle {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	if r.anchored {
		return strings.HasSuffix(rest, last)
	}
	return strings.Contains(rest, last)
}
