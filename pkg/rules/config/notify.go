package config

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Notify is a target for notices to people that something waits for them.
type Notify struct {
	Type   string      // slack, webhook or sns
	URL    secret.Text // of slack and webhook; may contain ${secretsmanager:…}, ${ssm:…}, ${env:…}, and cannot be printed
	Secret secret.Text // of webhook: the signing secret, with the same references as URL
	Topic  string      // of sns: its ARN
	Events []string    // of [NotifyEvents]; never empty

	// The target gets only events about these servers. Empty: it gets the events of all servers,
	// and events without a server.
	Servers []string
}

// NotifyEvents returns the events that people can get notices of.
func NotifyEvents() []string {
	return []string{
		"changed",
		"new",
		"request",
		"decided",
		"server_down",
		"config_refused",
		"connection_ended",
	}
}

// Variables returns the variables of the gateway's environment that the target refers to, each
// with its JSON path. i is the target's index in the list.
func (t Notify) Variables(i int) []Variable {
	return Values{"url": t.URL, "secret": t.Secret}.variables(index("notify", i))
}

// Where describes the address of the target without its secrets: the host, the reference to the
// address, or the name of the topic.
func (t Notify) Where() string {
	address := t.URL.Reveal()
	if t.Topic != "" {
		return "topic " + t.Topic[strings.LastIndexByte(t.Topic, ':')+1:]
	}
	switch u, err := url.Parse(address); {
	case onlyReferences(address):
		return address
	case err != nil || strings.Contains(address, "${"):
		return hidden
	default:
		return u.Host
	}
}

// maxNotify is the maximum number of targets. Every event goes to each of them.
const maxNotify = 20

// Signing secrets are 24 to 64 bytes in base64, after this prefix.
const (
	signingPrefix = "whsec_"
	signingLeast  = 24
	signingMost   = 64
)

// SigningKey returns the key of a signing secret: whsec_ and 24 to 64 bytes in base64. The error
// does not repeat it.
func SigningKey(s string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(s, signingPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < signingLeast || len(key) > signingMost {
		return nil, errors.New(
			"is not whsec_ and 24 to 64 bytes in base64; `echo whsec_$(openssl rand -base64 32)` prints one",
		)
	}
	return key, nil
}

// CheckTarget returns the fault of a target's address. The error does not repeat the address.
func CheckTarget(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return errors.New("is not a URL")
	case !strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "http://"):
		return errors.New("begins with neither https:// nor http://")
	case u.User != nil:
		return errors.New(
			"holds a user or password, which are not sent; a webhook is signed with its secret",
		)
	case u.Hostname() == "":
		return errors.New("has no host")
	case !validPort(u):
		return errors.New("has a port that is not 1 to 65535")
	case strings.Contains(s, "#"):
		return errors.New("has a fragment (#…), which is never sent")
	}
	return nil
}

// notify checks the targets of notices.
func (c *checker) notify(cfg *Config, list []fileNotify, n *rawjson.Node, servers names) {
	if len(list) > maxNotify {
		c.fault(n, "notify", "has %d targets; there can be %d", len(list), maxNotify)
		return
	}
	first := map[string]int{} // targets by their address
	for i, f := range list {
		at, path := n.Kids[i], index("notify", i)
		if at.Kind != '{' {
			continue
		}
		t := c.target(f, at, path)
		t.Servers = c.notifyServers(f, at, path, servers)
		where := t.Type + " " + t.URL.Reveal() + t.Topic
		if other, again := first[where]; again && !c.bad[at] && t.URL.Reveal()+t.Topic != "" {
			c.fault(
				at,
				path,
				"has the address of %s: people would get each notice twice; list all events in one target",
				index("notify", other),
			)
		} else if !again {
			first[where] = i
		}
		cfg.Notify = append(cfg.Notify, t)
	}
}

// target checks one target.
func (c *checker) target(f fileNotify, n *rawjson.Node, path string) Notify {
	t := Notify{
		Type:   textOr(f.Type),
		URL:    secret.New(textOr(f.URL)),
		Secret: secret.New(textOr(f.Secret)),
		Topic:  textOr(f.Topic),
	}
	t.Events = c.events(f.Events, n.Get("events"), JoinPath(path, "events"))
	at := n.Get("type")
	switch {
	case at == nil:
		c.faultAt(n.Offset, JoinPath(path, "type"), "is missing: want slack, webhook or sns")
		return t
	case c.bad[at]:
		return t
	}
	needs := map[string][]string{"slack": {"url"}, "webhook": {"url", "secret"}, "sns": {"topic"}}[t.Type]
	if needs == nil {
		c.fault(at, JoinPath(path, "type"), "%q is not one of slack, webhook, sns", clip(t.Type))
		return t
	}
	for _, key := range []string{"url", "secret", "topic"} {
		switch at, wanted := n.Get(key), slices.Contains(needs, key); {
		case at == nil && wanted:
			c.faultAt(
				n.Offset,
				JoinPath(path, key),
				"is missing: a target of type %s has one",
				t.Type,
			)
		case at != nil && !wanted:
			c.fault(
				at,
				JoinPath(path, key),
				"does not belong to a target of type %s, which has %s; remove it",
				t.Type,
				strings.Join(needs, " and "),
			)
		}
	}
	c.address(n.Get("url"), JoinPath(path, "url"), t.Type == "slack")
	c.signing(n.Get("secret"), JoinPath(path, "secret"))
	if at := n.Get("topic"); at != nil && !c.bad[at] && !isTopic(t.Topic) {
		c.fault(
			at,
			JoinPath(path, "topic"),
			"is not the ARN of an SNS topic: arn:aws:sns:REGION:ACCOUNT:NAME",
		)
	}
	return t
}

// isTopic reports whether s is the ARN of a topic without ordered messages.
func isTopic(s string) bool {
	parts := strings.Split(s, ":")
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") ||
		parts[2] != "sns" ||
		strings.HasSuffix(s, ".fifo") {
		return false
	}
	for _, part := range parts[3:] {
		if part == "" ||
			strings.Trim(
				part,
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_",
			) != "" {
			return false
		}
	}
	return true
}

// address checks a URL, which may be a single reference. isSecret is set for Slack, whose addresses
// are credentials.
func (c *checker) address(n *rawjson.Node, path string, isSecret bool) {
	if n == nil || c.bad[n] {
		return
	}
	refers, ok := c.references(n, path)
	if !ok || refers {
		return
	}
	if err := CheckTarget(n.Text); err != nil {
		c.fault(n, path, "%s", err)
		return
	}
	u, _ := url.Parse(n.Text) // CheckTarget parsed the same text
	if isSecret || secretQuery(u) {
		c.warn(n, path, inClear)
	}
}

// signing checks a secret, which may be a single reference.
func (c *checker) signing(n *rawjson.Node, path string) {
	if n == nil || c.bad[n] {
		return
	}
	refers, ok := c.references(n, path)
	if !ok || refers {
		return
	}
	if _, err := SigningKey(n.Text); err != nil {
		c.fault(n, path, "%s", err)
		return
	}
	c.warn(n, path, inClear)
}

// events checks the events of a target.
func (c *checker) events(list []string, n *rawjson.Node, path string) []string {
	known := NotifyEvents()
	if n == nil || c.bad[n] {
		return known
	}
	if len(list) == 0 {
		c.fault(
			n,
			path,
			"is empty, so this target gets no events; leave it out for all events, or remove the target",
		)
	}
	for i, name := range list {
		at, path := n.Kids[i], index(path, i)
		if !slices.Contains(known, name) {
			c.fault(at, path, "%q is not one of %s", clip(name), strings.Join(known, ", "))
		} else if slices.Contains(list[:i], name) {
			c.fault(at, path, "%q is listed twice; remove one", name)
		}
	}
	return list
}

// notifyServers checks the servers of a target. It refuses the name of an unknown server: nobody
// would get its events. It also refuses an event that is about no server.
func (c *checker) notifyServers(f fileNotify, n *rawjson.Node, path string, servers names) []string {
	at := n.Get("servers")
	if at == nil || c.bad[at] {
		return nil
	}
	where := JoinPath(path, "servers")
	if len(f.Servers) == 0 {
		c.fault(at, where, "is empty, so this target gets no events; leave it out for all servers")
	}
	for i, name := range f.Servers {
		if !servers.has(name) {
			c.fault(at.Kids[i], index(where, i), "there is no server %q in mcpServers", clip(name))
		} else if slices.Contains(f.Servers[:i], name) {
			c.fault(at.Kids[i], index(where, i), "%q is listed twice; remove one", name)
		}
	}
	if i := slices.Index(f.Events, "config_refused"); i >= 0 && !c.bad[n.Get("events")] {
		c.fault(n.Get("events").Kids[i], index(JoinPath(path, "events"), i), "is about no server, so a target with servers does not get it; remove it here, or remove servers")
	}
	return f.Servers
}

func textOr(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
