package crawl

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// robots are the rules of one robots.txt for this crawler (RFC 9309). The zero value allows everything.
//
// github.com/temoto/robotstxt is not used, because it departs from the RFC: one bad line discards the whole file, Disallow wins
// a tie, and percent-encoding is compared as written.
//
// A rule without a wildcard is looked up by the prefixes of the path, so that half a megabyte of rules costs as much as one.
// Rules with wildcards are tried one by one, and are bounded.
type robots struct {
	// begins and ends are the rules without wildcards: prefixes of paths, and whole paths ("…$"). The value says whether they
	// allow.
	begins, ends map[string]bool
	wild         []robotsRule
	// tooMany says that there are more rules with wildcards than can be tried for every link: nothing is allowed then.
	tooMany bool
	// delay is the Crawl-delay, an extension that many sites use. 0: none.
	delay time.Duration
}

const (
	// maxWildRules is several times the number that large sites have.
	maxWildRules = 1000
	// maxWildWork bounds the bytes of a path that all rules with wildcards look at: 1000 rules look at 131 bytes each. A longer
	// path is not allowed. It takes 0.4 ms. Rules with another beginning than the path's do not count.
	maxWildWork = 128 << 10
)

type robotsRule struct {
	allow bool
	// parts are the texts between the wildcards; anchored means that the pattern ended with "$".
	parts    []string
	anchored bool
	length   int
}

// parseRobots reads the groups that address token (a product token like "EchoMindSync", in any case), or those of "*" if no
// group does. Lines that it cannot read are skipped.
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
			continue // "**" means "*"
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

// keep stores a rule for lookups. Of an allowing and a forbidding rule for the same path the allowing one is kept.
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

// robotsPlain are the bytes that are not escaped in a rule, nor in the path that is compared with it.
const robotsPlain = "/:@!$&'()*+,;=?"

// allows tells whether a path with its query may be fetched: the longest matching rule decides, and of equally long ones the
// rule that allows (RFC 9309, 2.2.2).
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

// matches takes the leftmost place for each part, so it is linear in the path for each part and gives up at the end of the
// path.
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
