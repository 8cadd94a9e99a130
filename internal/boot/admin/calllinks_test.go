package bootadmin

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
)

// The pages of the audit and of the usage link to the consoles of the function's region and
// partition.
func TestCallLinks(t *testing.T) {
	for region, host := range map[string]string{
		"":              "",
		"eu-central-1":  "https://eu-central-1.console.aws.amazon.com/",
		"cn-north-1":    "https://cn-north-1.console.amazonaws.cn/",
		"us-gov-west-1": "https://us-gov-west-1.console.amazonaws-us-gov.com/",
	} {
		s := boot.Settings{Region: region, UsageLogs: "/aws/lambda/mcp", AuditStore: "s3://b/audit/", Stack: "blue"}
		p := &boot.Program{Settings: s}
		links := callLinks(p)
		if (len(links) == 2) != (host != "") {
			t.Errorf("%q: %v", region, links)
		}
		for _, l := range links {
			if !strings.HasPrefix(l.URL, host) || !strings.Contains(l.URL, "region="+region) {
				t.Errorf("%q: %s", region, l.URL)
			}
		}
		want := ""
		if host != "" {
			want = host + "cloudwatch/home?region=" + region + "#dashboards/dashboard/blue-" + region
		}
		if got := dashboard(p); got != want {
			t.Errorf("%q: the dashboard is at %q, want %q", region, got, want)
		}
		p.Timeouts.Holds = true
		if links, at := callLinks(p), dashboard(p); links != nil || at != "" {
			t.Errorf("on a server: %v, %q", links, at)
		}
	}
}
