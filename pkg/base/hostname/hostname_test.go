package hostname_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
)

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.9.9.9:80": true,
		"::1": true, "[::1]": true, "[::1]:80": true, "::ffff:127.0.0.1": true,

		"": false, ":80": false, "localhost.example.com": false, "127.0.0.1.example.com": false,
		"0.0.0.0": false, "::": false, "10.0.0.1:80": false, "127.1": false, "localhost.": false,
	} {
		if hostname.IsLoopback(host) != want {
			t.Errorf("%q: %t", host, !want)
		}
	}
}

func TestTrim(t *testing.T) {
	for host, want := range map[string]string{
		"gate.example.com:443": "gate.example.com", "gate.example.com": "gate.example.com",
		"[::1]:80": "::1", "[::1]": "::1", "::1": "::1", "": "",
	} {
		if got := hostname.Trim(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
