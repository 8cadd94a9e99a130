// Package hostname reads the hosts of URLs, addresses and Host headers.
package hostname

import (
	"net"
	"net/netip"
	"strings"
)

// Trim returns a host without its port and without the brackets of an IPv6 address.
func Trim(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// IsLoopback reports whether a host, with or without a port, is always this machine, independent of
// name servers.
func IsLoopback(host string) bool {
	name := Trim(host)
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.IsLoopback()
}
