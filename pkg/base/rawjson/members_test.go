package rawjson_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/require"
)

type inner struct {
	Name string `json:"name"`
	Note string `json:"note,omitempty"`
}

type outer struct {
	inner
	Rev    int    `json:"rev"`
	Hidden string `json:"-"`
	Bare   string `json:",omitempty"`
}

func TestUnmarshal(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       rawjson.Members
	}{
		{"nothing unknown", `{"name":"a","rev":1}`, nil},
		{"members of an embedded struct are known", `{"note":"n","name":"a"}`, nil},
		{"a name in another case belongs to the field", `{"NAME":"a","Rev":2,"bare":"b"}`, nil},
		{"unknown members keep their bytes", `{"name":"a","grants":[ {"x": 1e400} ],"stop":null}`,
			rawjson.Members{"grants": json.RawMessage(`[ {"x": 1e400} ]`), "stop": json.RawMessage(`null`)}},
		{"a field that is never written is unknown", `{"Hidden":"h"}`, rawjson.Members{"Hidden": json.RawMessage(`"h"`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var v outer
			got, err := rawjson.Unmarshal([]byte(tt.data), &v)
			require.OK(t, err)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, data := range []string{``, `{`, `[]`, `"a"`, `{"rev":"one"}`} {
		if got, err := rawjson.Unmarshal([]byte(data), new(outer)); err == nil {
			t.Errorf("Unmarshal(%s) = %v, want an error", data, got)
		}
	}
}

func TestMarshal(t *testing.T) {
	v := outer{inner: inner{Name: "a"}, Rev: 2}
	for _, tt := range []struct {
		name    string
		v       any
		further rawjson.Members
		want    string
	}{
		{"nothing further", v, nil, `{"name":"a","rev":2}`},
		{"further members follow", v, rawjson.Members{"stop": json.RawMessage(`true`), "grants": json.RawMessage(`["<&>"]`)}, `{"name":"a","rev":2,"grants":["<&>"],"stop":true}`},
		{"a field counts, not the member", v, rawjson.Members{"rev": json.RawMessage(`9`)}, `{"name":"a","rev":2}`},
		{"an empty struct", struct{}{}, rawjson.Members{"a": json.RawMessage(`1`)}, `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rawjson.Marshal(tt.v, tt.further)
			if err != nil || string(got) != tt.want {
				t.Errorf("Marshal = %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}
