package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A listener is a client that records its notifications.
type listener struct {
	mu       sync.Mutex
	messages []string
}

func (l *listener) notify(method string, params rawjson.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, strings.TrimPrefix(method, mcp.NotificationPrefix)+" "+string(params.Bytes()))
}

func (l *listener) notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.messages
}

func notification(method, params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + method + `","params":` + params + `}`
}

const done = `{"content":[{"type":"text","text":"done"}]}`

func TestNotifications(t *testing.T) {
	long := strings.Repeat("x", maxForwarded)
	for name, tt := range map[string]struct {
		client mcp.Client
		says   string
		want   string
	}{
		"progress": {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":1,"total":2.5,"message":"half","x":1}`),
			`progress {"progress":1,"total":2.5,"message":"half","x":1}`},
		"progress that nobody wants":  {mcp.Client{LogLevel: "debug"}, notification("progress", `{"progressToken":%token%,"progress":1}`), ""},
		"progress of another call":    {mcp.Client{Progress: true}, notification("progress", `{"progressToken":99999,"progress":1}`), ""},
		"progress by another token":   {mcp.Client{Progress: true}, notification("progress", `{"progressToken":"%token%","progress":1}`), ""},
		"progress without a token":    {mcp.Client{Progress: true}, notification("progress", `{"progress":1}`), ""},
		"progress without a number":   {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":"1"}`), ""},
		"progress of a strange total": {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":1,"total":[]}`), ""},
		"progress of a strange text":  {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":1,"message":{}}`), ""},
		"progress that is no object":  {mcp.Client{Progress: true}, notification("progress", `[%token%]`), ""},
		"progress without params":     {mcp.Client{Progress: true}, `{"jsonrpc":"2.0","method":"notifications/progress"}`, ""},
		"progress with a long message": {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":1,"message":"`+long[:5000]+`"}`),
			`progress {"progress":1,"message":"` + text.Clip(long, maxSentence) + `"}`},
		"progress that is too long": {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":1,"x":"`+long+`"}`), ""},
		"progress with a secret": {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":1,"message":"by tok-1234567890"}`),
			`progress {"progress":1,"message":"by [secret]"}`},
		"a log message": {mcp.Client{LogLevel: "info"}, notification("message", `{"level":"error","logger":"db","data":{"a":[1]}}`),
			`message {"level":"error","logger":"db","data":{"a":[1]}}`},
		"a log message of the same level":   {mcp.Client{LogLevel: "warning"}, notification("message", `{"level":"warning","data":""}`), `message {"level":"warning","data":""}`},
		"a log message of a lower level":    {mcp.Client{LogLevel: "warning"}, notification("message", `{"level":"notice","data":1}`), ""},
		"a log message that nobody wants":   {mcp.Client{Progress: true}, notification("message", `{"level":"emergency","data":1}`), ""},
		"a log message of an unknown level": {mcp.Client{LogLevel: "debug"}, notification("message", `{"level":"loud","data":1}`), ""},
		"a log message without data":        {mcp.Client{LogLevel: "debug"}, notification("message", `{"level":"info"}`), ""},
		"a client with an unknown level":    {mcp.Client{LogLevel: "chatty"}, notification("message", `{"level":"info","data":1}`), `message {"level":"info","data":1}`},
		"a log message with a secret": {mcp.Client{LogLevel: "debug"}, notification("message", `{"level":"info","data":{"authorization":"Bearer tok-1234567890"}}`),
			`message {"level":"info","data":{"authorization":"Bearer [secret]"}}`},
		"a log message that is too long": {mcp.Client{LogLevel: "debug"}, notification("message", `{"level":"info","logger":"l","data":"`+long+`"}`),
			`message {"level":"info","data":"` + text.Clip(long, maxSentence) + fmt.Sprintf(` (a log message of %d bytes, cut by the gateway)"}`, maxForwarded+39)},
		"a log message with an object that is too long": {mcp.Client{LogLevel: "debug"},
			notification("message", `{"level":"info","data":{"a":"`+long+`"}}`),
			`message {"level":"info","data":"` + strings.ReplaceAll(text.Clip(`{"a":"`+long, maxSentence), `"`, `\"`) +
				fmt.Sprintf(` (a log message of %d bytes, cut by the gateway)"}`, maxForwarded+32)},
		"a log message that is cut in a secret": {mcp.Client{LogLevel: "debug"}, notification("message", `{"level":"info","data":"`+long[:maxSentence-8]+`tok-1234567890`+long+`"}`),
			`message {"level":"info","data":"` + text.Clip(long[:maxSentence-8]+"[secret]"+long, maxSentence) + fmt.Sprintf(` (a log message of %d bytes, cut by the gateway)"}`, maxForwarded+maxSentence+32)},
		"progress whose message is cut in a secret": {mcp.Client{Progress: true}, notification("progress", `{"progressToken":%token%,"progress":1,"message":"`+long[:maxSentence-8]+`tok-1234567890`+long[:5000]+`"}`),
			`progress {"progress":1,"message":"` + text.Clip(long[:maxSentence-8]+"[secret]"+long, maxSentence) + `"}`},
		"other news":                  {mcp.Client{Progress: true, LogLevel: "debug"}, notification("tools/list_changed", `{}`), ""},
		"an elicitation nobody began": {mcp.Client{Progress: true, LogLevel: "debug"}, notification("elicitation/complete", `{"elicitationId":"x"}`), ""},
		"no JSON":                     {mcp.Client{Progress: true, LogLevel: "debug"}, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}`, "-"},
	} {
		for _, protocol := range []upstreamtest.Protocols{upstreamtest.Legacy, upstreamtest.Modern} {
			t.Run(fmt.Sprintf("%s/%d", name, protocol), func(t *testing.T) {
				f := newFixture(t, Options{}, upstreamtest.Options{Protocols: protocol, Sessions: true})
				f.targets[0].Headers = map[string]string{"Authorization": "Bearer tok-1234567890"}
				f.servers[0].FailOn("tools/call", 1, upstreamtest.Says(done, tt.says))
				var l listener
				tt.client.Notify = l.notify
				got, err := f.call(Call{Name: "x", Client: tt.client})
				if tt.want == "-" {
					if err == nil {
						t.Errorf("Call = %s", got)
					}
					return
				}
				if err != nil || got != done {
					t.Errorf("Call = %s, %v", got, err)
				}
				if messages := strings.Join(l.notes(), "\n"); messages != tt.want {
					t.Errorf("notifications =\n%.300s\nwant\n%.300s", messages, tt.want)
				}
			})
		}
	}
}

// A client that wants no notifications adds nothing to requests.
func TestWhatIsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name     string
		protocol upstreamtest.Protocols
		client   mcp.Client
		meta     string
		levels   string
	}{
		{"nothing, handshake", upstreamtest.Legacy, mcp.Client{Progress: true, LogLevel: "info"}, ``, ""},
		{"progress, handshake", upstreamtest.Legacy, mcp.Client{Progress: true, Notify: new(listener).notify}, `{"progressToken":3}`, ""},
		{"logs, handshake", upstreamtest.Legacy, mcp.Client{LogLevel: "info", Notify: new(listener).notify}, ``, `{"level":"info"}`},
		{"both, stateless", upstreamtest.Modern, mcp.Client{Progress: true, LogLevel: "error", Notify: new(listener).notify},
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"0.0.0"},` +
				`"io.modelcontextprotocol/clientCapabilities":` + unasking +
				`,"io.modelcontextprotocol/logLevel":"error","progressToken":2}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{}, upstreamtest.Options{Protocols: tt.protocol, Sessions: true, Logging: true})
			if _, err := f.call(Call{Name: "x", Client: tt.client}); err != nil {
				t.Fatal(err)
			}
			if _, err := f.call(Call{Name: "x", Client: tt.client}); err != nil {
				t.Fatal(err)
			}
			if got := string(rawjson.Get(f.servers[0].Calls()[0].Params, "_meta")); got != tt.meta {
				t.Errorf("_meta = %s, want %s", got, tt.meta)
			}
			var levels []string
			for _, r := range f.servers[0].Received(mcp.MethodSetLevel) {
				levels = append(levels, string(r.Params))
			}
			if got := strings.Join(levels, " "); got != tt.levels {
				t.Errorf("the server got the levels %s, want %s", got, tt.levels)
			}
		})
	}
}

func TestSetLevel(t *testing.T) {
	f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Logging: true}, upstreamtest.Options{Protocols: upstreamtest.Legacy})
	wants := func(level string) Call {
		return Call{Name: "x", Client: mcp.Client{LogLevel: level, Notify: new(listener).notify}}
	}
	for _, level := range []string{"warning", "error", "", "info", "info", "warning", "debug"} {
		if _, err := f.call(wants(level)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range f.servers[0].Received(mcp.MethodSetLevel) {
		got = append(got, rawjson.Text(rawjson.Get(r.Params, "level")))
	}
	if strings.Join(got, " ") != "warning info debug" {
		t.Errorf("the server got the levels %v", got)
	}
	if _, err := f.Call(t.Context(), f.targets[1], wants("info")); err != nil || f.servers[1].Received(mcp.MethodSetLevel) != nil {
		t.Errorf("a server without logs: %v, %v", err, f.servers[1].Received(mcp.MethodSetLevel))
	}
	f.servers[0].EndSessions()
	f.servers[0].ForgetRequests()
	f.servers[0].FailOn(mcp.MethodSetLevel, 1, upstreamtest.Reset())
	if _, err := f.call(wants("info")); err != nil { // the result does not matter
		t.Error(err)
	}
	f.received("tools/call initialize notifications/initialized logging/setLevel tools/call")
}

func TestFloodOfProgress(t *testing.T) {
	one := notification("progress", `{"progressToken":%token%,"progress":1,"message":"on and on"}`)
	log := notification("message", `{"level":"debug","data":"`+strings.Repeat("x", 1<<20)+`"}`)
	for name, tt := range map[string]struct {
		says     []string
		messages int
		ends     bool
	}{
		"10,000 events":    {slices.Repeat([]string{one}, 10_000), 10_000, true},
		"more than 64 MiB": {slices.Repeat([]string{log}, 66), 64, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Options{CallTime: 5 * time.Minute}, upstreamtest.Options{Protocols: upstreamtest.Modern})
			f.targets[0].Timeout = 5 * time.Minute // a busy machine with the race detector is slow
			f.servers[0].FailOn("tools/call", 1, upstreamtest.Says(done, tt.says...))
			n := 0
			_, err := f.call(Call{Name: "x", Client: mcp.Client{Progress: true, LogLevel: "debug", Notify: func(string, rawjson.Object) { n++ }}})
			if n < tt.messages-1 || n > tt.messages || (err == nil) != tt.ends {
				t.Errorf("%d notifications, want %d; Call = %v", n, tt.messages, err)
			}
		})
	}
}

func FuzzTold(f *testing.F) {
	f.Add([]byte(`{"progressToken":7,"progress":1,"total":2,"message":"m"}`))
	f.Add([]byte(`{"level":"info","data":[1,"a"],"logger":"l"}`))
	f.Add([]byte(`{"requestId":1}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		o := &operation{c: New(nil), server: &serverState{}, ep: &endpoint{}, requestID: 7, session: &mcpSession{}}
		o.client = mcp.Client{Progress: true, LogLevel: "debug", Notify: func(method string, p rawjson.Object) {
			if b := p.Bytes(); !json.Valid(b) || len(b) > maxForwarded+len(params)/8+4096 || p.Get("progressToken") != nil && method == mcp.NotificationProgress {
				t.Errorf("%s %s", method, b)
			}
		}}
		for _, method := range []string{mcp.NotificationProgress, mcp.NotificationMessage, mcp.NotificationCancelled, mcp.NotificationElicited} {
			if json.Valid(params) {
				o.forward(method, params)
			}
		}
	})
}
