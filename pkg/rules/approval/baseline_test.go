package approval_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
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
		{"an IPv6 address", "https://[2001:DB8::1]:443/mcp", "https://[2001:db8::1]/mcp"},
		{"another spelling of an IPv6 address", "https://[2001:db8:0:0:0:0:0:01]/mcp", "https://[2001:db8::1]/mcp"},
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
		t.Error("http and https count as one server")
	}
}

func TestBaselineIdentity(t *testing.T) {
	for want, urls := range map[string][]string{
		"http://localhost:3000/mcp": {
			"http://localhost:3000/mcp", "http://LOCALHOST:3000/mcp/", "http://localhost.:3000/mcp", "http://localhost..:3000/mcp",
			"http://app.localhost:3000/mcp", "http://localhost.localdomain:3000/mcp", "http://ip6-localhost:3000/mcp", "http://localhost6:3000/mcp",
			"http://127.0.0.1:3000/mcp", "http://127.0.0.1.:3000/mcp", "http://127.0.0.2:3000/mcp", "http://127.1:3000/mcp", "http://127.0.1:3000/mcp",
			"http://2130706433:3000/mcp", "http://0x7f000001:3000/mcp", "http://0x7F.0.0.1:3000/mcp", "http://0177.0.0.1:3000/mcp", "http://017700000001:3000/mcp",
			"http://0.0.0.0:3000/mcp", "http://0:3000/mcp", "http://[::]:3000/mcp", "http://[::1]:3000/mcp", "http://[0:0:0:0:0:0:0:1]:3000/mcp", "http://[::1%25lo]:3000/mcp",
			"http://[::ffff:127.0.0.1]:3000/mcp", "http://[::FFFF:7f00:1]:3000/mcp",
			"http://ｌｏｃａｌｈｏｓｔ:3000/mcp", "http://①②⑦。0.0.1:3000/mcp", "http://local\u00adhost:3000/mcp",
			"http://localhost:3000/mcp?tenant=a", "http://localhost:03000/mcp?", "http://localhost:3000/%6Dcp#x", "http://localhost:3000/x/%2e%2e/mcp", "http://user@localhost:3000/mcp",
		},
		"http://localhost/":                {"http://localhost", "http://localhost:80/", "http://[::1]:80", "http://127.0.0.1/?x=1"},
		"https://localhost/":               {"https://localhost:443", "https://[::ffff:127.0.0.1]:443"},
		"https://192.0.2.1/mcp":            {"https://192.0.2.1/mcp", "https://[::ffff:192.0.2.1]/mcp", "https://3221225985/mcp", "https://0xc0.0.0x201/mcp"},
		"https://[2001:db8::1]/mcp":        {"https://[2001:DB8::1]:443/mcp", "https://[2001:db8:0::1%25eth0]/mcp"},
		"https://[2001:db8::1]:8443/mcp":   {"https://[2001:DB8::1]:8443/mcp"},
		"https://mcp.example.com/mcp":      {"https://mcp.example.com/mcp", "https://MCP.example.com.:443/mcp/?tenant=a", "https://mcp.example.com/mcp?"},
		"https://mcp.example.com/MCP":      {"https://mcp.example.com/MCP"},
		"http://mcp.example.com/mcp":       {"http://mcp.example.com/mcp"},
		"http://localhost.example.com/mcp": {"http://localhost.example.com/mcp"},
		"http://notlocalhost/mcp":          {"http://notlocalhost/mcp"},
		"http://1.2.3.4.5/mcp":             {"http://1.2.3.4.5/mcp"},
		"http://256.0.0.1/mcp":             {"http://256.0.0.1/mcp"},
		"http://1_0.0.0.1/mcp":             {"http://1_0.0.0.1/mcp"},
		"cmd:npx -y server?x=1":            {"cmd:npx -y server?x=1"},
		"":                                 {""},
	} {
		for _, u := range urls {
			got := approval.BaselineIdentity(u)
			if got != want {
				t.Errorf("BaselineIdentity(%q) = %q, want %q", u, got, want)
			}
			if again := approval.BaselineIdentity(got); again != got {
				t.Errorf("BaselineIdentity of %q is %q", got, again)
			}
		}
	}
	if approval.SameServer("http://localhost:3000/mcp", "http://127.0.0.1:3000/mcp") || approval.SameServer("https://a.example/?x=1", "https://a.example/?x=2") {
		t.Error("decisions about one address also apply to another")
	}
}
