package connect

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// guides is the table of the clients. It begins with a description of its format. This package does
// not use text/template, because every program that records visits would then link the template
// engine.
//
//go:embed guides.txt
var guides string

// conditional matches a text of guides that applies only to some gateways. continuation matches a
// line break inside a value.
var (
	conditional  = regexp.MustCompile(`<(\w+) ([^<>]*)>`)
	continuation = regexp.MustCompile(`\s*\n +`)
)

// fill returns a client's guide for an endpoint.
func fill(id string, e Endpoint) (g Guide) {
	_, block, _ := strings.Cut(guides, "\nclient: "+id+"\n")
	block, _, _ = strings.Cut(block, "\nclient: ")
	why := e.whyBlocked()
	applies := map[string]bool{
		string(e.Auth): true, "cloud": why == "", "blocked": why != "",
		"http":  strings.HasPrefix(e.URL, "http:") && !e.isLoopback(),
		"stdio": e.Auth == None || e.Auth == Bearer, // it cannot sign in
	}
	for range 2 { // such a text may contain another: the inner texts first
		block = conditional.ReplaceAllStringFunc(block, func(all string) string {
			if name, text, _ := strings.Cut(all[1:len(all)-1], " "); applies[name] {
				return text
			}
			return ""
		})
	}
	g.ID = id
	if e.Auth == Signed {
		g.Traps = []string{"No client signs its requests for AWS. Put a proxy that signs between " +
			"the client and the gateway, and use the proxy's address instead of this one."}
	}
	places := []string{"@name", e.Name, "@variable", e.Variable, "@url", e.URL,
		"@word", Shell(e.URL), "@json", encode(e.URL), "@why", why}
	for line := range strings.Lines(continuation.ReplaceAllString(block, " ")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		// One pass, because an address may contain a placeholder.
		value = strings.NewReplacer(places...).Replace(value)
		if key == "entry" {
			var entry bytes.Buffer
			_ = json.Compact(&entry, []byte(value))
			places = append(places, "@entry", entry.String(), "@arg", Shell(entry.String()),
				"@base64", url.QueryEscape(base64.StdEncoding.EncodeToString(entry.Bytes())),
				"@query", strings.ReplaceAll(url.QueryEscape(entry.String()), "+", "%20"))
		} else {
			g.set(key, value, e)
		}
	}
	return g
}

// set adds one line of a client's table to its guide.
func (g *Guide) set(key, value string, e Endpoint) {
	f := &File{}
	if n := len(g.Files); n > 0 {
		f = &g.Files[n-1]
	}
	texts := map[string]*string{
		"name": &g.Name, "docs": &g.Docs, "checked": &g.Checked, "run": &g.Run, "link": &g.Link,
		"label": &g.Label, "command": &g.Command, "after": &g.After, "steps": &g.Steps,
		"windows": &f.Windows, "when": &f.When,
	}
	switch {
	case key == "":
	case texts[key] != nil:
		*texts[key] = value
	case key == "file":
		g.Files = append(g.Files, File{Path: value})
	case key == "project":
		const when = "for everybody who works on a project"
		g.Files = append(g.Files, File{Path: value, When: when, Text: f.Text})
	case key == "json":
		f.Text = rawjson.Indent([]byte(value), "", "  ") + "\n"
	case key == "toml":
		f.Text += value + "\n"
	case key == "note":
		g.Traps = append(g.Traps, value)
	case key != "token":
		panic("guides.txt has a line " + key)
	case e.Auth == Bearer:
		if g.Token = Place(value); g.Token == InVariable {
			g.Traps = append(g.Traps, "The client reads "+e.Variable+" from its environment: "+
				"set it first, and restart the client.")
		}
	}
}

// isLoopback reports whether only its own machine can reach the gateway.
func (e Endpoint) isLoopback() bool {
	host := e.host()
	return hostname.IsLoopback(host) || strings.HasSuffix(host, ".localhost")
}

// isPrivate reports whether only its own network can reach the gateway. A host name that looks
// public counts as public, because isPrivate does not look up its address.
func (e Endpoint) isPrivate() bool {
	host := e.host()
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()
	}
	return !strings.Contains(host, ".") ||
		strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal")
}

// host returns the host of the address, in lower case.
func (e Endpoint) host() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// whyBlocked returns why the connectors of claude.ai cannot reach the gateway, or "".
func (e Endpoint) whyBlocked() string {
	switch {
	case e.isLoopback():
		return "it cannot reach a gateway on your own machine"
	case e.isPrivate():
		return "it cannot reach a gateway in a private network"
	case strings.HasPrefix(e.URL, "http:"):
		return "it connects only by https"
	case e.Auth == Bearer:
		return "a custom connector signs in by OAuth or not at all: it has no place for a token"
	case e.Auth == Signed:
		return "it does not sign its requests for AWS"
	}
	return ""
}
