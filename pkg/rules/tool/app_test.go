package tool

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestApp(t *testing.T) {
	both := App{ForModels: true, ForPages: true}
	for meta, want := range map[string]App{
		`{}`:                                    both,
		`{"ui":{"resourceUri":"ui://s/p"}}`:     {"ui://s/p", true, true},
		`{"ui/resourceUri":"ui://s/old"}`:       {"ui://s/old", true, true},
		`{"\u0075i":{"visibility":["app"]}}`:    {"", false, true},
		`{"ui":{"visibility":["model"]}}`:       {"", true, false},
		`{"ui":{"visibility":["app","model"]}}`: both,
		`{"ui":{"visibility":[]}}`:              {},
		`{"ui":{"visibility":["MODEL",7]}}`:     {},
		`{"ui":{"visibility":"app"}}`:           both,
		`{"ui":{"visibility":null}}`:            both,
		`{"ui":["ui"]}`:                         both,
		`"ui"`:                                  both,
		`{"ui":{"resourceUri":"https://s/p"}}`:  both,
		`{"ui":{"resourceUri":["ui://s/p"]}}`:   both,
		`{"ui":{"resourceUri":"ui://new"},"ui/resourceUri":"ui://s/old"}`: {"ui://new", true, true},
	} {
		d, err := ParseItem(
			Tool,
			[]byte(`{"name":"t","inputSchema":{"type":"object"},"_meta":`+meta+`}`),
		)
		if got := d.App(); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", meta, got, err, want)
		}
	}
}

// A definition means the same to the gateway as to a host that decodes it.
func FuzzApp(f *testing.F) {
	for _, meta := range []string{
		`{}`, `{"ui":{"resourceUri":"ui://s/p","visibility":["app"]}}`,
		`{"\u0075i":{"visibility":[]}}`, `{"ui/resourceUri":"ui://p"}`,
	} {
		f.Add([]byte(`{"name":"t","_meta":` + meta + `}`))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := ParseItem(Tool, raw)
		if err != nil {
			return
		}
		var decoded map[string]json.RawMessage
		if err := json.Unmarshal(raw, &decoded); err != nil {
			t.Fatal(err)
		}
		object := func(raw json.RawMessage) (out map[string]json.RawMessage) {
			if json.Unmarshal(raw, &out) != nil {
				return nil
			}
			return out
		}
		meta := object(decoded["_meta"])
		ui := object(meta["ui"])
		var page string
		if json.Unmarshal(ui["resourceUri"], &page) != nil || page == "" {
			page = ""
			_ = json.Unmarshal(meta["ui/resourceUri"], &page) // another type is no page
		}
		want := App{ForModels: true, ForPages: true}
		if strings.HasPrefix(page, AppScheme) {
			want.Page = page
		}
		var callers []any
		if json.Unmarshal(ui["visibility"], &callers) == nil && callers != nil {
			want.ForModels, want.ForPages = slices.Contains(
				callers,
				any("model"),
			), slices.Contains(
				callers,
				any("app"),
			)
		}
		if got := d.App(); got != want {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	})
}
