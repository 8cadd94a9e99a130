package approval

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Kind is a kind of list that a server sends.
type Kind string

// The kinds of lists. The first list of each kind can be approved automatically.
const (
	Tools     Kind = "tools"
	Prompts   Kind = "prompts"
	Resources Kind = "resources" // and resource templates
)

// KindOf returns the kind of list that an item is in.
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

// A Baseline records that the first list of a server was approved, so that no later list is
// approved automatically. It belongs to the server's address and not to its name in the config. So
// the config cannot get a second automatic approval with another name for the same server.
type Baseline struct {
	Identity string    `json:"identity"` // [BaselineIdentity] of the server; earlier versions wrote its [Identity]
	Kind     Kind      `json:"kind"`
	URL      string    `json:"url"`    // the URL as it was in the config
	Server   string    `json:"server"` // name of the server in the config when it sent the list
	At       time.Time `json:"at"`
}

// Identity returns a server's URL in normal form. The result identifies the server under every name
// that the config gives it. It does not depend on: the case of scheme and host, the port that the
// scheme implies, zeros before a port, the spelling of an IPv6 address, a dot after the host, a
// slash after the path, dot segments, needless escapes and the fragment. It depends on the query.
// An identity that begins with "cmd:" is reserved for servers that are programs.
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

// BaselineIdentity returns the identity of a server for its baseline, the approval of the first
// list that the server sent. It is coarser than [Identity], so that another name of a known address
// gets no second baseline:
//   - all names and addresses of this machine are the same;
//   - an IPv4 address is the same in each notation;
//   - the query makes no difference.
//
// Decisions use [Identity]: a decision at one address does not count at another address.
func BaselineIdentity(serverURL string) string {
	u, err := url.Parse(Identity(serverURL))
	if err != nil || u.Host == "" {
		return serverURL
	}
	host := baselineHost(u.Hostname())
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	u.Host, u.RawQuery = host, ""
	return u.String()
}

// localhost represents every name and address of this machine.
const localhost = "localhost"

// baselineHost returns one spelling of a host.
func baselineHost(host string) string {
	host = strings.ToLower(text.Normal(host))
	host = strings.TrimRight(strings.ReplaceAll(host, "。", "."), ".") // an ideographic full stop is a dot in a host
	if slices.Contains(loopbackNames, host) || strings.HasSuffix(host, "."+localhost) {
		return localhost
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr = parseIPv4(host)
	}
	addr = addr.Unmap().WithZone("")
	switch {
	case !addr.IsValid():
		return host
	case addr.IsLoopback(), addr.IsUnspecified():
		return localhost
	case addr.Is6():
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

// loopbackNames are the names that the hosts files of common systems give the loopback addresses.
var loopbackNames = []string{localhost, "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"}

// parseIPv4 reads an IPv4 address as the C library does: one to four numbers, each decimal, octal
// or hexadecimal. The last number fills the remaining bytes. It returns the zero Addr for any
// other text.
func parseIPv4(host string) netip.Addr {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}
	}
	var sum uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(part, 0, bits)
		if err != nil || strings.Contains(part, "_") {
			return netip.Addr{}
		}
		sum = sum<<bits | n
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(sum))))
}

// BaselineKey returns the key under which a baseline is stored. identity is a [BaselineIdentity].
// All keys of a kind have the same length, even if the identity is long.
func BaselineKey(identity string, kind Kind) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:]) + "#" + string(kind)
}

// Present returns b in the present form. isOld reports whether an earlier version of the program
// stored b in another form: without an identity, or under its [Identity].
func (b Baseline) Present() (now Baseline, isOld bool) {
	identity := BaselineIdentity(b.URL)
	if b.URL == "" || b.Identity == identity {
		return b, false
	}
	b.Identity, b.Kind = identity, cmp.Or(b.Kind, Tools)
	return b, true
}

// Key returns the key of b.
func (b Baseline) Key() string { return BaselineKey(b.Identity, b.Kind) }

// Check returns an error that names all faults for which a store refuses b.
func (b Baseline) Check() error {
	var c checker
	c.text("identity", b.Identity, 1, 4*maxURL) // an escape in a URL has three bytes
	c.text("kind", string(b.Kind), 1, MaxName)
	c.text("server", b.Server, 0, MaxName)
	c.text("url", b.URL, 0, maxURL)
	if strings.Contains(string(b.Kind), "#") {
		c = append(c, errors.New("kind has a #"))
	}
	return c.fault("baseline of %q", b.Server)
}
