package approval_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
)

func TestIdentity(t *testing.T) {
	for _, test := range []struct {
		name, url, want string
	}{
		{"as it is", "https://mcp.example.com/mcp", "https://mcp.example.com/mcp"},
		{"case of scheme and host", "HTTPS://MCP.Example.COM/mcp", "https://mcp.example.com/mcp"},
		{"case of the path matters", "https://mcp.example.com/MCP", "https://mcp.example.com/MCP"},
		{"the default port", "https://mcp.example.com:443/mcp", "https://mcp.example.com/mcp"},
		{"the default port of http", "http://mcp.example.com:80/mcp", "http://mcp.example.com/mcp"},
		{"another port matters", "https://mcp.example.com:8443/mcp", "https://mcp.example.com:8443/mcp"},
		{"a port that the other scheme implies matters", "http://mcp.example.com:443/mcp", "http://mcp.example.com:443/mcp"},
		{"a slash at the end", "https://mcp.example.com/mcp/", "https://mcp.example.com/mcp"},
		{"no path", "https://mcp.example.com", "https://mcp.example.com/"},
		{"a dot at the end of the host", "https://mcp.example.com./mcp", "https://mcp.example.com/mcp"},
		{"dot segments", "https://mcp.example.com/a/../mcp/./", "https://mcp.example.com/mcp"},
		{"needless escapes", "https://mcp.example.com/%6Dcp", "https://mcp.example.com/mcp"},
		{"the query matters", "https://mcp.example.com/mcp?tenant=a", "https://mcp.example.com/mcp?tenant=a"},
		{"an empty query", "https://mcp.example.com/mcp?", "https://mcp.example.com/mcp"},
		{"a fragment", "https://mcp.example.com/mcp#here", "https://mcp.example.com/mcp"},
		{"an address of version 6", "https://[2001:DB8::1]:443/mcp", "https://[2001:db8::1]/mcp"},
		{"another spelling of it", "https://[2001:db8:0:0:0:0:0:01]/mcp", "https://[2001:db8::1]/mcp"},
		{"zeros before the port", "https://mcp.example.com:0443/mcp", "https://mcp.example.com/mcp"},
		{"no URL", "not a url", "not a url"},
		{"nothing", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := approval.Identity(test.url)
			if got != test.want {
				t.Errorf("Identity(%q) = %q, want %q", test.url, got, test.want)
			}
			if again := approval.Identity(got); again != got {
				t.Errorf("Identity of an identity is %q, want %q", again, got)
			}
			if !approval.SameServer(test.url, test.want) || approval.SameServer(test.url, test.want+"x") {
				t.Errorf("SameServer of %q is wrong", test.url)
			}
		})
	}
	if approval.SameServer("http://mcp.example.com/mcp", "https://mcp.example.com/mcp") {
		t.Error("http and https are one server")
	}
}
