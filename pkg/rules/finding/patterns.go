package finding

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

const (
	minRun  = 16  // characters of a word that may start an encoded run
	longRun = 64  // characters of an encoded run
	longHex = 128 // characters of a hexadecimal run; checksums are shorter
)

// encoded finds a run of base64 or hexadecimal digits that starts at from, and skips it.
func (r *reader) encoded(from int) bool {
	if from < r.checked {
		return false
	}
	var small, large, digit, rest, hex int
	to := from
	for ; to < len(r.str); to++ {
		switch c := r.str[to]; {
		case c >= '0' && c <= '9':
			digit++
			hex++
			continue
		case c >= 'a' && c <= 'z':
			small++
			if c <= 'f' {
				hex++
			}
			continue
		case c >= 'A' && c <= 'Z':
			large++
			if c <= 'F' {
				hex++
			}
			continue
		case strings.IndexByte("+/=_-", c) >= 0:
			rest++
			continue
		}
		break
	}
	r.checked = to
	n := to - from
	base64 := n >= longRun && small > 0 && large > 0 && digit > 0 && rest <= n/10
	if !base64 && (n < longHex || hex < n) {
		return false
	}
	r.add(encoded, from, to, show(r.str[from:to]))
	r.at = to
	return true
}

// url finds a URL whose scheme starts at from, and skips it.
func (r *reader) url(from int) {
	end := r.at + strings.IndexAny(r.str[r.at:]+" ", " \t\n\"'`<>()[]{}|\\,")
	to := r.at + len(strings.TrimRight(r.str[r.at:end], ".;:!?*"))
	scheme := strings.ToLower(r.str[from:r.at])
	host := r.str[r.at+len("://") : max(to, r.at+len("://"))]
	if r.isURI() { // the scan continues inside the URI, because its path may lead to keys
		r.at += len("://")
		return
	}
	r.at = max(to, r.at+len("://"))
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host = host[:i]
	}
	if !slices.Contains([]string{"http", "https", "ws", "wss", "ftp"}, scheme) || !strings.Contains(host, ".") {
		return
	}
	if r.addressed(host, from, to); placeholder(host) {
		return
	}
	r.add(link, from, to, show(r.str[from:to]))
}

// isURI reports whether the text is the URI of a resource, in which a URL is no finding.
func (s *scanner) isURI() bool {
	if s.kind != tool.Resource || s.dec == nil {
		return false
	}
	at := s.where()
	return at == "uri" || at == "uriTemplate"
}

// addressed notes an address at a host.
func (r *reader) addressed(host string, from, to int) {
	class := r.anyAddress
	if !placeholder(host) {
		class |= r.address
	}
	r.hit(class, from, to, "")
}

// placeholder reports whether a host is local, an example, a variable, or the publisher of JSON
// Schema or OpenAPI.
func placeholder(host string) bool {
	host = strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
	host, _, _ = strings.Cut(host, ":")
	if strings.HasPrefix(host, "127.") || host == "0.0.0.0" || strings.ContainsAny(host, "$*") {
		return true
	}
	for _, known := range []string{"localhost", "example", "test", "invalid", "example.com", "example.org", "example.net", "json-schema.org", "spec.openapis.org"} {
		if host == known || strings.HasSuffix(host, "."+known) {
			return true
		}
	}
	return false
}

// mail finds an e-mail address around the @ at the current position.
func (r *reader) mail() {
	inAddress := func(c byte) bool { return isWord(c) || strings.IndexByte(".+-%", c) >= 0 }
	from, to := r.at, r.at+1
	for from > 0 && r.at-from < 64 && inAddress(r.str[from-1]) {
		from--
	}
	for to < len(r.str) && to-r.at < 255 && inAddress(r.str[to]) {
		to++
	}
	host := strings.TrimRight(r.str[r.at+1:to], ".-")
	if from < r.at && strings.Contains(host, ".") {
		r.addressed(host, from, r.at+1+len(host))
	}
}

// phone finds a telephone number after the + at the current position.
func (r *reader) phone() {
	digits, to := 0, r.at+1
	for to < len(r.str) && to-r.at < 24 && (r.str[to] >= '0' && r.str[to] <= '9' || strings.IndexByte(" -()", r.str[to]) >= 0) {
		if r.str[to] >= '0' && r.str[to] <= '9' {
			digits++
		}
		to++
	}
	if digits >= 8 && (r.at == 0 || !isWord(r.str[r.at-1])) {
		r.hit(r.address|r.anyAddress, r.at, to, "")
	}
}

// names finds a name at from that is the name of another tool.
func (r *reader) names(from int) {
	if !r.prose || r.isName || len(r.scanner.names.servers) == 0 && r.scanner.names.note == nil || from > 0 && r.str[from-1] == '/' {
		return
	}
	to := from
	for to < len(r.str) && r.str[to] < utf8.RuneSelf && (isWord(r.str[to]) || r.str[to] == '-' || r.str[to] == '.') {
		to++
	}
	for to > from && (r.str[to-1] == '-' || r.str[to-1] == '.') {
		to--
	}
	name := r.str[from:to]
	if !distinct(name) && !r.called(from, to) || name == r.own {
		return
	}
	server := r.scanner.names.serverOf(name)
	if server == "" {
		return
	}
	code, quote := sibling, name
	if server != r.scanner.names.own {
		code, quote = otherTool, show(server+":"+name)
		r.hit(r.other, from, from+len(name), quote)
	}
	r.add(code, from, from+len(name), quote)
}

// called reports whether a word is in quotes and the text around it calls it a tool.
func (r *reader) called(from, to int) bool {
	if from == 0 || to >= len(r.str) || r.str[from-1] != r.str[to] || strings.IndexByte("'\"`", r.str[to]) < 0 {
		return false
	}
	after := strings.ToLower(r.str[to+1 : min(len(r.str), to+10)])
	before := strings.ToLower(r.str[max(0, from-12) : from-1])
	is := func(word string) bool {
		return strings.HasPrefix(after, " "+word) || strings.HasSuffix(before, word+" ")
	}
	return slices.ContainsFunc([]string{"tool", "function", "call", "use", "using", "calling", "invoke", "run"}, is)
}

// A surrounding is the text directly before and after a word.
type surrounding struct{ before, after string }

// keyPlaces are words in paths to files with keys, with the history of a shell, or with settings.
var keyPlaces = map[string]surrounding{
	"ssh": {".", ""}, "id_rsa": {}, "id_ed25519": {}, "id_ecdsa": {}, "id_dsa": {}, "authorized_keys": {},
	"env": {".", ""}, "aws": {".", "/"}, "kube": {".", "/"}, "docker": {".", "/config"}, "gnupg": {".", ""}, "cursor": {".", "/"},
	"netrc": {".", ""}, "pgpass": {".", ""}, "npmrc": {".", ""}, "pypirc": {".", ""}, "git": {".", "-credentials"},
	"bash_history": {".", ""}, "zsh_history": {".", ""}, "passwd": {"etc/", ""}, "shadow": {"etc/", ""},
	"mcp": {"", ".json"}, "claude_desktop_config": {}, "credentials": {"", ".json"}, "secrets": {"", ".json"},
	"service_account": {"", ".json"}, "wallet": {"", ".dat"},
}

// keyPath finds a path to keys with a word at from.
func (r *reader) keyPath(from, to int, s surrounding) {
	start := from - len(s.before)
	if !strings.HasSuffix(r.str[:from], s.before) || !strings.HasPrefix(r.str[to:], s.after) {
		return
	}
	if s.before == "." && start > 0 && (isWord(r.str[start-1]) || strings.IndexByte(")]", r.str[start-1]) >= 0) {
		return // such as process.env, which is not a path
	}
	inPath := func(c byte) bool { return isWord(c) || strings.IndexByte("~/.-\\$%{}", c) >= 0 }
	for start > 0 && from-start < maxText && inPath(r.str[start-1]) {
		start--
	}
	end := to
	for end < len(r.str) && end-to < maxText && inPath(r.str[end]) {
		end++
	}
	r.hit(r.secret, start, end, "")
	r.add(keyPath, start, end, show(r.str[start:end]))
}

// Names of tags that imitate tags of the system. Honest texts do not use a tag of tagsAlone.
// A tag of tagsClosed counts only if a closing tag follows: otherwise it may be a placeholder, as
// in "Bearer <secret>". Tags of HTML do not count.
var (
	tagsAlone  = []string{"important", "system-reminder", "system_reminder", "|im_start|", "|im_end|", "|system|", "<sys>"}
	tagsClosed = []string{"system", "secret", "hidden", "instructions", "instruction", "prompt", "admin", "override", "user", "human", "assistant", "developer", "critical", "rules"}
	tagsHTML   = strings.Fields("a abbr article aside b body br button code dd details div dl dt em example examples footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input label li link main meta nav ol option p path pre script section select small span strong style sub summary sup svg table tbody td textarea th thead title tr u ul video")
)

// tag finds a tag that starts here.
func (r *reader) tag() {
	rest := r.str[r.at:]
	if strings.HasPrefix(rest, "<!--") {
		r.add(markup, r.at, r.at+4, show(rest))
		return
	}
	end := strings.IndexByte(rest[:min(len(rest), maxText)], rest[0]+2) // "]" or ">"
	if end < 0 {
		return
	}
	inner := strings.ToLower(strings.Trim(rest[1:end], "/ "))
	name, _, _ := strings.Cut(inner, " ")
	note := func(code string) { r.add(code, r.at, r.at+end+1, show(rest)) }
	switch {
	case name == "":
	case rest[0] == '[':
		if name == "inst" || name == "system" {
			note(tag)
		}
	case slices.Contains(tagsAlone, name) || rest[1:end] == "SYSTEM" || strings.HasPrefix(rest, "<<SYS>>"):
		note(tag)
	case isWord(name[0]) && r.closes(name):
		if slices.Contains(tagsClosed, name) {
			note(tag)
		} else if !slices.Contains(tagsHTML, name) {
			note(markup)
		}
	}
}

// closes reports whether the text closes a tag that opens here.
func (r *reader) closes(name string) bool {
	if strings.HasPrefix(r.str[r.at:], "</") {
		return false // a closing tag was checked at its opening tag
	}
	if r.closed == nil {
		r.closed = map[string]bool{}
		for rest := r.str; ; {
			_, after, found := strings.Cut(rest, "</")
			if !found {
				break
			}
			rest = after
			end := strings.IndexAny(rest[:min(len(rest), maxName)], "> ")
			r.closed[strings.ToLower(rest[:max(end, 0)])] = true
		}
	}
	return r.closed[name]
}
