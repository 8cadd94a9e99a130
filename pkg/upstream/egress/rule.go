package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Rule decides which addresses may be dialed: public addresses for https URLs, and addresses in
// the networks of Allow also for http URLs.
type Rule struct {
	Allow   []netip.Prefix
	Runtime string // host:port of the Lambda runtime, never dialed; "": none
}

// A BlockedError is an address that may not be dialed. Nothing was sent to it.
type BlockedError struct{ msg string }

func (e *BlockedError) Error() string { return e.msg }

func blocked(format string, args ...any) error {
	return &BlockedError{fmt.Sprintf(format, args...)}
}

// Check returns a [*BlockedError] if ap may not be dialed for a URL of that scheme.
func (r Rule) Check(scheme string, ap netip.AddrPort) error {
	addr := ap.Addr().WithZone("").Unmap()
	if !addr.IsValid() {
		return blocked("the address is not valid")
	}
	all := append(embedded(addr), addr)
	if slices.ContainsFunc(all, neverDialed) {
		return blocked("address %s is link-local and is never dialed", addr)
	}
	if slices.ContainsFunc(all, func(a netip.Addr) bool { return r.isRuntime(a, ap.Port()) }) {
		return blocked("address %s belongs to the Lambda runtime and is never dialed", ap)
	}
	if slices.ContainsFunc(r.Allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	if slices.ContainsFunc(all, func(a netip.Addr) bool { return !public(a) }) {
		return blocked("address %s is not public; PORTCULLIS_ALLOW_NETS may allow it", addr)
	}
	if scheme != "https" {
		return blocked("address %s is public and may be dialed by https only", addr)
	}
	return nil
}

// Blocks reports whether the host of u is a blocked address, or localhost where it is blocked. It
// does not resolve names.
func (r Rule) Blocks(u *url.URL) bool {
	host := u.Hostname()
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		port = 443
	}
	return r.Check("https", netip.AddrPortFrom(addr, uint16(port))) != nil
}

// isRuntime reports whether an address is the Lambda runtime's own endpoint. A request to this
// endpoint could take events of other callers. If the runtime's host is a name, any non-public
// address may be the endpoint.
func (r Rule) isRuntime(addr netip.Addr, port uint16) bool {
	host, p, err := net.SplitHostPort(r.Runtime)
	if err != nil || p != strconv.Itoa(int(port)) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return !public(addr)
	}
	return addr == ip.Unmap() || addr.IsLoopback() && ip.Unmap().IsLoopback() || addr.IsUnspecified()
}

// neverDialed reports whether an address is never dialed, even if an allow list contains it. These
// are the link-local addresses, at which the metadata service of a cloud gives out credentials, and
// the networks of that service's IPv6 address.
func neverDialed(addr netip.Addr) bool {
	return addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() || addr.IsInterfaceLocalMulticast() ||
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x00, 0x0e, 0xc2}), 32).Contains(addr)
}

// embedded returns the IPv4 addresses to which a translator or a tunnel would send packets for
// addr: NAT64, 6to4, IPv4-translated, IPv4-compatible and ISATAP forms.
func embedded(addr netip.Addr) []netip.Addr {
	if addr.Is4() {
		return nil
	}
	b := addr.As16()
	v4 := func(i int) []netip.Addr { return []netip.Addr{netip.AddrFrom4([4]byte(b[i : i+4]))} }
	switch {
	case string(b[:12]) == "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00", // 64:ff9b::/96
		string(b[:6]) == "\x00\x64\xff\x9b\x00\x01",                          // 64:ff9b:1::/48, with a /96 inside
		string(b[:12]) == "\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00", // ::ffff:0:0:0/96
		string(b[:12]) == strings.Repeat("\x00", 12) && !addr.IsLoopback() && !addr.IsUnspecified(),
		b[8]&0xfd == 0 && string(b[9:12]) == "\x00\x5e\xfe": // ISATAP
		return v4(12)
	case b[0] == 0x20 && b[1] == 0x02: // 2002::/16
		return v4(2)
	}
	return nil
}

// notPublic returns the networks that are not on the public internet, from the IANA special-purpose
// registries. For IPv6, only 2000::/3 and the well-known NAT64 prefix are public.
func notPublic() []string {
	return []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "3fff::/20",
	}
}

// public reports whether addr belongs to the public internet.
func public(addr netip.Addr) bool {
	if addr.Is6() {
		b := addr.As16()
		nat64 := string(b[:12]) == "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00"
		if b[0]>>5 != 1 && !nat64 {
			return false
		}
	}
	return !slices.ContainsFunc(notPublic(), func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err != nil || p.Contains(addr)
	})
}

// ParseNets reads a comma-separated list of CIDRs or addresses, as in PORTCULLIS_ALLOW_NETS. It
// reports all faults together; "" is an empty list. A link-local network is a fault, because it can
// never be dialed.
func ParseNets(s string) ([]netip.Prefix, error) {
	var nets []netip.Prefix
	var faults []error
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		p, err := parseNet(part)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		nets = append(nets, p)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return nets, nil
}

func parseNet(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if addr, ipErr := netip.ParseAddr(s); ipErr == nil && addr.Zone() == "" {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a network such as 10.0.0.0/8", s)
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 network in IPv6 form; write it as IPv4", s)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("%q has bits beyond its mask; did you mean %s", s, p.Masked())
	case neverDialed(p.Addr()) && neverDialed(lastOf(p)):
		return netip.Prefix{}, fmt.Errorf("%q is link-local, which can never be allowed", s)
	}
	return p, nil
}

// lastOf returns the last address of p.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}
