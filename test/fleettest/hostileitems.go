package fleettest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// HostileItems are prompts and resources like the tools of [Hostile].
func HostileItems() upstreamtest.Items {
	const markup = `"></pre><script>` + script + `</script><img src=x onerror=` + script + `>`
	quoted := string(rawjson.Quote(markup))
	var many []string
	for n := range 1200 {
		many = append(many, fmt.Sprintf(`{"name":"argument_%d","description":"Number %d."}`, n, n))
	}
	prompts := raw(
		`{"name":"markup","title":`+quoted+`,"description":`+quoted+`,"arguments":[{"name":`+quoted+`,"title":`+quoted+`,"description":`+quoted+`}]}`,
		`{"name":"hidden","description":"Sums\u200b up.","arguments":[{"name":"pa\u202ege","description":"\u2067which\u2069"}]}`,
		`{"name":"many","arguments":[`+strings.Join(many, ",")+`]}`,
		`{"name":"unbroken","description":"`+strings.Repeat("a", 20_000)+`","arguments":[{"name":"`+strings.Repeat("n", 3000)+`"}]}`,
	)
	var resources []json.RawMessage
	for _, uri := range []string{
		"javascript:" + script, "data:text/html,<script>" + script + "</script>", "https://evil.example.com/" + `"><svg/onload=` + script + ">",
		"file:///" + strings.Repeat("a", tool.MaxURI-8), "x:" + strings.Repeat("+%20", 500), "docs://מסמך/קריאה",
	} {
		resources = append(resources, json.RawMessage(fmt.Sprintf(`{"uri":%s,"name":%s,"mimeType":%s,"description":"Reads \u202eyreve elif."}`, rawjson.Quote(uri), quoted, quoted)))
	}
	return upstreamtest.Items{
		Prompts: prompts, Resources: resources,
		Templates: raw(`{"uriTemplate":"javascript:{`+"x"+`}","name":"T","description":`+quoted+`}`, `{"uriTemplate":"file:///{+path}","name":"\u200b"}`),
	}
}
