package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Kind is what a server lists.
type Kind string

// The kinds of lists. The first list of each is taken for itself.
const (
	Tools     Kind = "tools"
	Prompts   Kind = "prompts"
	Resources Kind = "resources" // and templates of resources
)

// KindOf returns what list an item is in.
func KindOf(k tool.Kind) Kind {
	switch k {
	case tool.Prompt:
		return Prompts
	case tool.Resource:
		return Resources
	default:
		return Tools
	}
}

// A Baseline remembers that the first list of a server was taken, so that no later one is. It
// belongs to the server's identity and not to its name in the config: a server under a second or a
// new name has had its first list.
type Baseline struct {
	Identity string    `json:"identity"` // [Identity] of the server
	Kind     Kind      `json:"kind"`
	URL      string    `json:"url"`    // as the config had it
	Server   string    `json:"server"` // the name under which the list came
	At       time.Time `json:"at"`
}

// Baselines is the part of a driver that keeps [Baseline]s. It is a port of its own because only a
// sync needs it.
type Baselines interface {
	// Baseline returns the baseline of the identity and kind, or [ErrNotFound].
	Baseline(ctx context.Context, identity string, kind Kind) (Baseline, error)

	// PutBaselines stores baselines, in the place of older ones. It stores none if one of them fails
	// [Baseline.Check]; with another error some may be stored.
	PutBaselines(ctx context.Context, all []Baseline) error

	// OldBaselines returns what an earlier version of the program stored by the name of a server,
	// with Identity and Kind filled in: at least that of the named servers. One without a URL is
	// left out.
	OldBaselines(ctx context.Context, servers []string) ([]Baseline, error)
}

// Identity returns a server's URL in one spelling, which identifies the server whatever the config
// calls it. Case of scheme and host, the port that the scheme implies, zeros before a port, the
// spelling of an IPv6 address, a dot that ends the host, a slash that ends the path, dot segments,
// needless escapes and the fragment make no other server; the query does. An identity that begins
// with "cmd:" is reserved for servers that are programs.
func Identity(serverURL string) string {
	u, err := url.Parse(serverURL)
	if err != nil || u.Host == "" {
		return serverURL
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	scheme := strings.ToLower(u.Scheme)
	if p := strings.TrimLeft(u.Port(), "0"); p != "" && (scheme != "https" || p != "443") && (scheme != "http" || p != "80") {
		host += ":" + p
	}
	one := url.URL{Scheme: scheme, Host: host, Path: path.Clean("/" + u.Path), RawQuery: u.RawQuery}
	return one.String()
}

// SameServer reports whether two URLs identify one server.
func SameServer(a, b string) bool { return a == b || Identity(a) == Identity(b) }

// BaselineKey returns the key under which a baseline is stored. Its length does not depend on the
// identity.
func BaselineKey(identity string, kind Kind) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:]) + "#" + string(kind)
}

// AppendOld appends b, as an earlier version of the program stored it, in the present form; one
// without a URL is left out.
func (b Baseline) AppendOld(all []Baseline) []Baseline {
	if b.URL == "" {
		return all
	}
	b.Identity, b.Kind = Identity(b.URL), Tools
	return append(all, b)
}

// Key returns the key of b.
func (b Baseline) Key() string { return BaselineKey(b.Identity, b.Kind) }

// CheckBaselines returns an error that names everything in them that a store refuses.
func CheckBaselines(all []Baseline) error {
	faults := make([]error, len(all))
	for i, b := range all {
		faults[i] = b.Check()
	}
	return errors.Join(faults...)
}

// Check returns an error that names everything in b that a store refuses.
func (b Baseline) Check() error {
	var c checker
	c.text("identity", b.Identity, 1, 4*maxURL) // an escape takes three bytes
	c.text("kind", string(b.Kind), 1, MaxName)
	c.text("server", b.Server, 0, MaxName)
	c.text("url", b.URL, 0, maxURL)
	if strings.Contains(string(b.Kind), "#") {
		c = append(c, errors.New("kind has a #"))
	}
	return c.fault("baseline of %q", b.Server)
}
