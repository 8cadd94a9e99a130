package upstream

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestEventStreams(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []string // data of the message events
	}{
		{"one event", "data: a\n\n", []string{"a"}},
		{"CRLF", "event: message\r\ndata: a\r\n\r\n", []string{"a"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"several lines", "data: a\ndata:b\ndata\n\n", []string{"a\nb\n"}},
		{"several lines, CRLF", "data: a\r\ndata: b\r\n\r\n", []string{"a\nb"}},
		{"comments and other fields", ": hi\nid: 7\nretry: 10\nfoo: bar\ndata: a\n\n: bye\n\n", []string{"a"}},
		{"another type of event", "event: endpoint\ndata: a\n\ndata: b\n\n", []string{"b"}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"no blank line at the end", "data: a\n\ndata: b", []string{"a", "b"}},
		{"nothing", "", nil},
		{"empty events", "\n\n\n", nil},
		{"an event with an id and empty data", "id: 7\ndata: \n\ndata: a\n\n", []string{"a"}},
		{"colon in the data", "data: {\"a\":1}\n\n", []string{`{"a":1}`}},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "all with its end": iotest.DataErrReader,
		} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				var got []string
				err := events(wrap(strings.NewReader(tt.stream)), func(data []byte) (bool, error) {
					got = append(got, string(data))
					return false, nil
				})
				if !errors.Is(err, errStreamEnded) || !slices.Equal(got, tt.want) {
					t.Errorf("events = %q, %v; want %q", got, err, tt.want)
				}
			})
		}
	}
	t.Run("stops when done", func(t *testing.T) {
		r := strings.NewReader("data: a\n\n" + strings.Repeat("data: b\n\n", 10_000))
		n := 0
		err := events(r, func([]byte) (bool, error) { n++; return true, nil })
		if err != nil || n != 1 {
			t.Errorf("events = %v after %d", err, n)
		}
	})
	t.Run("does not wait for more than an event", func(t *testing.T) {
		pr, pw := io.Pipe()
		go func() { _, _ = pw.Write([]byte("data: a\r\r")) }() // the pipe stays open
		if err := events(pr, func([]byte) (bool, error) { return true, nil }); err != nil {
			t.Error(err)
		}
	})
	t.Run("a broken connection is its own error", func(t *testing.T) {
		err := events(io.MultiReader(strings.NewReader("data: a"), iotest.ErrReader(io.ErrUnexpectedEOF)), func([]byte) (bool, error) { return true, nil })
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("events = %v", err)
		}
	})
}

func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		ok        bool
	}{
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, true},
		{"result before the rest", ` {"result":{},"id":1,"jsonrpc":"2.0"} `, true},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m","data":[1]}}`, true},
		{"unknown members", `{"jsonrpc":"2.0","id":1,"result":{},"x":{}}`, true},
		{"both", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, false},
		{"neither", `{"jsonrpc":"2.0","id":1}`, false},
		{"result twice", `{"jsonrpc":"2.0","id":1,"result":{"a":1},"result":{}}`, false},
		{"result is no object", `{"jsonrpc":"2.0","id":1,"result":[]}`, false},
		{"result is null", `{"jsonrpc":"2.0","id":1,"result":null}`, false},
		{"another version", `{"jsonrpc":"1.0","id":1,"result":{}}`, false},
		{"no version", `{"id":1,"result":{}}`, false},
		{"another case", `{"jsonrpc":"2.0","id":1,"Result":{}}`, false},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"result":{}}]`, false},
		{"two values", `{"jsonrpc":"2.0","id":1,"result":{}}{}`, false},
		{"cut off", `{"jsonrpc":"2.0","id":1,"result":{`, false},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}", false},
		{"an error without a code", `{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`, false},
		{"a code that is no number", `{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}`, false},
		{"empty", ``, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := parseReply([]byte(tt.raw))
			if (err == nil) != tt.ok {
				t.Fatalf("parseReply = %+v, %v; want ok %t", r, err, tt.ok)
			}
			if err != nil {
				if v := classify(evidence{err: err, exchange: answered(200, "")}); v.Reason != outcome.ReasonProtocol {
					t.Errorf("reason = %s, want protocol, because the text is complete", v.Reason)
				}
			}
		})
	}
	if _, err := parseReply([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)); !errors.Is(err, errNotReply) {
		t.Errorf("parseReply of a request = %v", err)
	}
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":[1.0,{"b":"\u00e9"}]}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"supported":["x"]}}}`))
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\"}\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parseReply(raw)
		if err == nil && (r.result != nil) == (r.err != nil) {
			t.Errorf("%q has both or neither of result and error", raw)
		}
		if err == nil && r.result != nil && !json.Valid(r.result) {
			t.Errorf("%q has result %q, which is not JSON", raw, r.result)
		}
		// The reader ends on every input.
		_ = events(strings.NewReader(string(raw)), func(data []byte) (bool, error) {
			_, err := parseReply(data)
			return err == nil, nil
		})
	})
}

func FuzzCallParams(f *testing.F) {
	f.Add([]byte(`{"name":"x","arguments":{"n":9007199254740993},"Name":"y","_meta":{"progressToken":1}}`), []byte(`{"type":"object"}`))
	f.Add([]byte(`{"arguments":{"a":"b"}}`), []byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`))
	c := New(nil)
	f.Fuzz(func(t *testing.T, params, schema []byte) {
		r, refused := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + string(params) + `}`))
		if refused != nil {
			return
		}
		m, err := c.callMessage(mcpSession{modern: true, version: mcp.VersionModern},
			Call{Name: "tool", Arguments: r.Arguments, Rest: r.Rest, Meta: r.Meta, Schema: schema})
		if err != nil {
			return
		}
		got := require.JSON[map[string]json.RawMessage](t, m.params.Bytes())
		if string(got["name"]) != `"tool"` {
			t.Errorf("name = %s", got["name"])
		}
		for key := range got {
			if key != "name" && strings.EqualFold(key, "name") {
				t.Errorf("params %s have %q in addition to the name", m.params.Bytes(), key)
			}
		}
		for name, values := range m.header {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n") {
				t.Errorf("header %q: %q", name, values)
			}
		}
	})
}
