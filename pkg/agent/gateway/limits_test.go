package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

func TestRetrieveLimit(t *testing.T) {
	var many []string
	for i := range 60 {
		many = append(many, def(fmt.Sprintf("copy_%02d", i), "Copy a page.", ""))
	}
	gw := serving(t, "", "", many...)
	for args, want := range map[string]int{`{"query":"copy"}`: 10, `{"query":"copy","limit":1}`: 1, `{"query":"copy","limit":50}`: 50} {
		if f := gw.search(args); len(f.Tools) != want || f.Total != 60 {
			t.Errorf("%s: %d of %d, want %d of 60", args, len(f.Tools), f.Total, want)
		}
	}
}

func TestRetrieveLockedDescription(t *testing.T) {
	gw := serving(t, `"disabled_tools":["*"]`, "", def("archive_mail", "Archive mail,\nall of it. Then forget it.", ""))
	for detail, want := range map[string]string{"compact": "Archive mail, all of it.", "full": "Archive mail,\nall of it. Then forget it."} {
		f := gw.search(fmt.Sprintf(`{"query":"archive","include_disabled":true,"detail":%q}`, detail))
		if len(f.Disabled) != 1 || f.Disabled[0].Description != want {
			t.Errorf("%s: %s, want %q", detail, f.Raw, want)
		}
	}
}

// A timed is an upstream that records its time limit.
type timed struct {
	*gatewaytest.Servers
	target upstream.Target
	left   time.Duration
}

func (u *timed) Call(ctx context.Context, t upstream.Target, _ upstream.Call) (json.RawMessage, error) {
	u.target = t
	if end, ok := ctx.Deadline(); ok {
		u.left = time.Until(end)
	}
	return json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`), nil
}

// An upstream call has 20 s and a request 25 s, so that there is time to answer before the function
// ends at 28 s. An operator can give a server less time, but not more.
func TestCallTimeout(t *testing.T) {
	for setting, want := range map[string]time.Duration{
		``: 20 * time.Second, `"timeout":"3s"`: 3 * time.Second, `"timeout":"20s"`: 20 * time.Second,
	} {
		gw := serving(t, setting, "", def("act", "Act.", ""))
		up := &timed{Servers: gw.Servers}
		gw.Upstream = up
		gw.Restart()
		if r := gw.Call("call_tool_destructive", `{"name":"s:act"}`); r.IsError {
			t.Fatal(r.Text)
		}
		if up.target.Timeout != want {
			t.Errorf("%s: the call may take %v, want %v", setting, up.target.Timeout, want)
		}
		if up.left <= 20*time.Second || up.left > 25*time.Second {
			t.Errorf("%s: the request has %v left, want between 20 s and 25 s", setting, up.left)
		}
	}
}

func TestRetrieveOneLine(t *testing.T) {
	gw := serving(t, "", "", def("talk", strings.Repeat("Word after word ", 100), ""))
	d := gw.search(`{"query":"talk"}`).Tools[0].Description
	if n := len([]rune(d)); n > 200 || !strings.HasSuffix(d, "…") || strings.Contains(d, "\n") {
		t.Errorf("%d characters: %q", n, d)
	}
}
