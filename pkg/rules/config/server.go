package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

const (
	// MaxTimeout is the longest timeout of a call.
	MaxTimeout = 10 * time.Minute

	// The default timeout of a call, and the longest timeout if the gateway cannot stream. Without
	// streaming, a call has to end before the gateway's own limit of 25 s, which is below API
	// Gateway's 30 s.
	usualTimeout = 20 * time.Second
)

// server checks one member of mcpServers.
func (c *checker) server(name string, f *fileServer, n *rawjson.Node, path string) Server {
	s := Server{
		Name:          name,
		URL:           c.url(f.URL, n, path),
		Command:       c.command(f, n, path),
		Enabled:       c.enabled(f, n, path),
		EnabledTools:  c.globs(f.EnabledTools, n, path, "enabled_tools"),
		DisabledTools: c.globs(f.DisabledTools, n, path, "disabled_tools"),
		Approval:      c.oneOf(f.Approval, n, path, "approval", "on_change", "manual", "off"),
		Timeout:       c.timeout(f.Timeout, n, path),
		Required:      f.Required != nil && *f.Required,
		BehindProxy:   c.oneOf(f.BehindProxy, n, path, "behind_proxy", "", "envoy"),
		Session:       c.oneOf(f.Session, n, path, "session", "agent", "shared"),
		Protocol:      c.oneOf(f.Protocol, n, path, "protocol", "auto", mcp.VersionLegacy),
		Elicitation:   c.oneOf(f.Elicitation, n, path, "elicitation", "relay", "replay", "off"),
		Annotations:   c.overrides(f.Annotations, n.Get("annotations"), path+".annotations"),

		Resources:         c.oneOf(f.Resources, n, path, "resources", "", "on_change", "manual", "off"),
		DisabledPrompts:   c.globs(f.DisabledPrompts, n, path, "disabled_prompts"),
		DisabledResources: c.uriGlobs(f.DisabledResources, n, path, "disabled_resources"),
		UnlistedResources: f.UnlistedResources != nil && *f.UnlistedResources,
	}
	s.Headers = c.headers(n.Get("headers"), path+".headers")
	s.Auth = c.auth(f, n, path)
	c.transport(f, n, path)
	if s.Command != nil {
		s.URL = s.Command.identity()
	}
	return s
}

// url checks a server's URL. No message repeats the URL, because people write credentials there.
func (c *checker) url(text *string, n *rawjson.Node, path string) string {
	at, path := n.Get("url"), JoinPath(path, "url")
	switch {
	case n.Get("command") != nil || c.bad[n]:
		return ""
	case text == nil:
		c.faultAt(n.Offset, path, "is missing, and so is command")
		return ""
	case c.bad[at]:
		return ""
	}
	u, err := url.Parse(*text)
	switch {
	case strings.Contains(*text, "${"):
		c.fault(at, path, "holds ${…}, which is replaced in headers only")
	case err != nil || strings.ContainsFunc(*text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		c.fault(at, path, "is not a URL")
	case !strings.HasPrefix(*text, "https://") && !strings.HasPrefix(*text, "http://"):
		c.fault(at, path, "begins with neither https:// nor http://")
	case u.User != nil:
		c.fault(at, path, "holds a user or password; write them as an Authorization header")
	case u.Hostname() == "":
		c.fault(at, path, "has no host")
	case !validPort(u):
		c.fault(at, path, "has a port that is not 1 to 65535")
	case u.Fragment != "" || strings.Contains(*text, "#"):
		c.fault(at, path, "has a fragment (#…), which is never sent")
	default:
		if secretQuery(u) {
			c.warn(at, path, "seems to hold a credential in its query; a header keeps it out of logs")
		}
	}
	return *text
}

// secretQuery reports whether a parameter of a URL looks like a credential.
func secretQuery(u *url.URL) bool {
	for name, values := range u.Query() {
		if slices.ContainsFunc(values, func(v string) bool { return secret.Looks(name, v) }) {
			return true
		}
	}
	return false
}

func validPort(u *url.URL) bool {
	_, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return !strings.HasSuffix(u.Host, ":") // without any port
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func (c *checker) timeout(text *string, n *rawjson.Node, path string) time.Duration {
	at, path := n.Get("timeout"), JoinPath(path, "timeout")
	if text == nil || c.bad[at] {
		return usualTimeout
	}
	d, err := time.ParseDuration(*text)
	switch {
	case err != nil:
		c.fault(at, path, "%q is not a duration; write it like \"1500ms\" or \"20s\"", clip(*text))
	case d <= 0:
		c.fault(at, path, "%q is not above zero", clip(*text))
	case d > MaxTimeout:
		c.fault(at, path, "%q is longer than 10m, the most that a call may take", clip(*text))
	case d > usualTimeout:
		c.warn(at, path, "applies with portcullis serve and where answers are streamed; elsewhere a call ends after 20s")
	}
	return d
}

// durationOf returns the probable meaning of a bare number: seconds, or milliseconds if that many
// seconds are not allowed.
func durationOf(number string) string {
	n, err := strconv.Atoi(number)
	switch longest := int(MaxTimeout / time.Second); {
	case err == nil && n > 0 && n <= longest:
		return number + "s"
	case err == nil && n > longest && n <= 1000*longest:
		return number + "ms"
	}
	return usualTimeout.String()
}

// oneOf returns the text of n's member key, or the default, standard, if it is absent. It reports a
// value that is neither standard nor among the others.
func (c *checker) oneOf(text *string, n *rawjson.Node, path, key, standard string, others ...string) string {
	at := n.Get(key)
	if text == nil || c.bad[at] {
		return standard
	}
	want := slices.Concat([]string{standard}, others)
	if standard == "" { // "" means absent and cannot be written
		want = others
	}
	if !slices.Contains(want, *text) {
		c.fault(at, JoinPath(path, key), "%q is not one of %s", clip(*text), strings.Join(want, ", "))
	}
	return *text
}

// globs checks a list of globs over bare names of tools or prompts.
func (c *checker) globs(list []string, n *rawjson.Node, path, key string) []string {
	at := n.Get(key)
	for i, glob := range list {
		c.glob(glob, at.Kids[i], index(path+"."+key, i))
	}
	return list
}

// uriGlobs checks a list of globs over URIs.
func (c *checker) uriGlobs(list []string, n *rawjson.Node, path, key string) []string {
	at := n.Get(key)
	for i, glob := range list {
		if err := tool.ValidURI(glob); err != nil {
			c.fault(at.Kids[i], index(path+"."+key, i), "%q is not a glob over URIs: 1 to %d bytes without white space; write %%20 for a blank", clip(glob), tool.MaxURI)
		}
	}
	return list
}

func (c *checker) glob(glob string, at *rawjson.Node, path string) {
	if strings.Contains(glob, ":") {
		c.fault(at, path, "%q names a server; write bare names here, as globs", clip(glob))
	} else if tool.ValidGlob(glob) != nil {
		c.fault(at, path, "%q is not a glob: 1 to 128 of A-Z a-z 0-9 _ . - and *", clip(glob))
	}
}

// overrides returns the hints by glob in the file's order, which a Go map does not keep.
func (c *checker) overrides(hints map[string]fileHints, n *rawjson.Node, path string) []Override {
	if n == nil {
		return nil
	}
	var out []Override
	for name, value := range n.All() {
		f := hints[name]
		c.glob(name, &rawjson.Node{Offset: value.NameOffset}, JoinPath(path, name))
		o := Override{Glob: name, Hints: tool.Annotations{
			ReadOnlyHint:    f.ReadOnlyHint,
			DestructiveHint: f.DestructiveHint,
			IdempotentHint:  f.IdempotentHint,
			OpenWorldHint:   f.OpenWorldHint,
		}}
		if f.Title != nil {
			o.Hints.Title = *f.Title
		}
		out = append(out, o)
	}
	return out
}
