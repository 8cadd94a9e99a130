package apigw_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/golden"
)

const eventsDir = "../../../events"

// A gate answers each call with the input of the call, so that the golden files show the content of
// each event.
type gate struct{ caller gateway.Caller }

func (gate) Open(_ context.Context, c gateway.Caller) (mcphttp.Session, error) { return gate{c}, nil }

func (gate) Stopped(context.Context, identity.Agent) error { return nil }

func (gate) While(ctx context.Context, _ identity.Agent) (context.Context, func()) {
	return context.WithCancel(ctx)
}

func (gate) Instructions() string { return "Behind this gate: github." }

func (gate) DeclaresOutput(string) bool { return false }

func (gate) Lists(gateway.Lists) gateway.Lists { return gateway.Lists{} }

func (gate) Offers() gateway.Offers { return gateway.Offers{} }

func (gate) ListItems(context.Context, string, string) (json.RawMessage, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
}

func (gate) GetItem(context.Context, mcp.Request, mcp.Client) (json.RawMessage, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
}

func (gate) AnswerTask(context.Context, mcp.Request, mcp.Client) (json.RawMessage, error) {
	return nil, &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
}

func (gate) ListTools(context.Context, string) (json.RawMessage, error) {
	return json.RawMessage(`{"tools":[{"name":"retrieve_tools","inputSchema":{"type":"object"}}]}`), nil
}

func (g gate) CallTool(_ context.Context, r mcp.Request, _ mcp.Client) (json.RawMessage, error) {
	header, err := json.Marshal(g.caller.Header)
	if err != nil {
		return nil, err
	}
	var params rawjson.Object
	if r.Meta != nil {
		params.Add("_meta", r.Meta.Bytes())
	}
	params.Add("name", rawjson.Quote(r.Name))
	params.Add("arguments", r.Arguments)
	text, err := json.Marshal(string(header) + " " + g.caller.Traceparent + " " + string(params.Bytes()))
	return json.RawMessage(`{"content":[{"type":"text","text":` + string(text) + `}]}`), err
}

func newGate(t testing.TB) *apigw.Adapter {
	t.Helper()
	h, err := mcphttp.New(gate{}, identity.None{}, &mcphttp.Options{AllowOrigins: []string{"https://app.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	return apigw.New(h, nil)
}

// Each golden file has the answer to an event, and shows that both payloads get the same answer.
func TestEventsMatchGolden(t *testing.T) {
	a := newGate(t)
	for _, folder := range []string{"http", "rest"} {
		files, err := filepath.Glob(filepath.Join(eventsDir, folder, "*.json"))
		if err != nil || len(files) < 9 {
			t.Fatalf("%d events in %s, %v", len(files), folder, err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(folder+"/"+name, func(t *testing.T) {
				in, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				out, err := a.Invoke(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				golden.Check(t, filepath.Join("testdata", folder, name+".json"), string(indent(t, out)))
			})
		}
	}
}

func indent(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Both payloads of a request get the same answer.
func TestPayloadsAlike(t *testing.T) {
	a := newGate(t)
	files, err := filepath.Glob(filepath.Join(eventsDir, "rest", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no events", err)
	}
	for _, file := range files {
		var answers []res
		for folder, read := range map[string]func(testing.TB, []byte) res{"http": readV2, "rest": readV1} {
			in, err := os.ReadFile(filepath.Join(eventsDir, folder, filepath.Base(file)))
			if err != nil {
				t.Fatal(err)
			}
			out, err := a.Invoke(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			r := read(t, out)
			for name, values := range r.header { // payload 2.0 has one line for each header
				r.header[name] = []string{strings.Join(values, ",")}
			}
			answers = append(answers, r)
		}
		if d := cmp.Diff(answers[0], answers[1], cmp.AllowUnexported(res{})); d != "" {
			t.Errorf("%s (-one +other):\n%s", filepath.Base(file), d)
		}
	}
}

// Events of other services are not requests.
func TestInvokeOtherServices(t *testing.T) {
	a := newGate(t)
	for _, name := range []string{"schedule.json", "s3-config.json"} {
		in, err := os.ReadFile(filepath.Join(eventsDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := a.Invoke(t.Context(), in); err == nil {
			t.Errorf("the answer to %s is %s", name, out)
		}
	}
}

// For any bytes, Invoke returns a JSON answer or an error, and never panics.
func FuzzInvoke(f *testing.F) {
	err := filepath.WalkDir(eventsDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		b, err := os.ReadFile(path)
		f.Add(b)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	a := apigw.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" || r.Header == nil {
			panic("the request has no path or no headers")
		}
		w.WriteHeader(http.StatusNoContent)
	}), nil)
	f.Fuzz(func(t *testing.T, payload []byte) {
		out, err := a.Invoke(t.Context(), payload)
		if err != nil {
			return
		}
		var answer struct{ StatusCode int }
		if err := json.Unmarshal(out, &answer); err != nil || answer.StatusCode != http.StatusNoContent && answer.StatusCode != http.StatusBadRequest && answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("the answer to %q is %s", payload, out)
		}
	})
}

// A stream accepts and refuses the same requests as a whole answer, with the same status.
func FuzzStream(f *testing.F) {
	err := filepath.WalkDir(eventsDir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		b, err := os.ReadFile(path)
		f.Add(b)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	whole, stream := apigw.New(h, nil), apigw.NewStream(h, nil)
	f.Fuzz(func(t *testing.T, payload []byte) {
		out, wholeErr := whole.Invoke(t.Context(), payload)
		var e apigw.Event
		if err := json.Unmarshal(payload, &e); err != nil {
			if wholeErr == nil {
				t.Errorf("%q is an event for only one of the two: %v", payload, err)
			}
			return
		}
		a, err := stream.Answer(t.Context(), e)
		if (err == nil) != (wholeErr == nil) {
			t.Fatalf("%q: %v, as a whole answer %v", payload, err, wholeErr)
		}
		if err != nil {
			return
		}
		var answer struct{ StatusCode int }
		if err := json.Unmarshal(out, &answer); err != nil || answer.StatusCode != a.StatusCode {
			t.Errorf("%q: status %d, as a whole answer %s", payload, a.StatusCode, out)
		}
		_ = a.Close()
	})
}
