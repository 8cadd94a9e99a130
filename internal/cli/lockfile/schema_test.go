package lockfile

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	check "github.com/google/jsonschema-go/jsonschema"
	"github.com/invopop/jsonschema"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// schema returns the JSON Schema (2020-12) of the file, for editors. It is generated from the
// written types. Parse also refuses files for reasons that a schema cannot express.
func schema(t *testing.T) string {
	t.Helper()
	r := jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true,
		Namer: func(t reflect.Type) string { return strings.ToLower(strings.TrimPrefix(t.Name(), "document")) },
	}
	s := r.Reflect(&document{})
	s.Title = "Portcullis " + Name
	b, err := json.MarshalIndent(s, "", "  ")
	require.OK(t, err)
	return string(b) + "\n"
}

const namePattern = `^[A-Za-z0-9_.-]{1,128}$`

// JSONSchemaExtend adds the form of a server's name.
func (document) JSONSchemaExtend(s *jsonschema.Schema) {
	if p, ok := s.Properties.Get("servers"); ok {
		p.PropertyNames = &jsonschema.Schema{Pattern: namePattern}
	}
}

// JSONSchemaExtend adds the form of a tool's and a prompt's name.
func (documentServer) JSONSchemaExtend(s *jsonschema.Schema) {
	for _, key := range []string{"tools", "prompts"} {
		if p, ok := s.Properties.Get(key); ok {
			p.PropertyNames = &jsonschema.Schema{Pattern: namePattern}
		}
	}
}

// JSONSchemaExtend adds that the reserved member is empty.
func (documentEntry) JSONSchemaExtend(s *jsonschema.Schema) {
	if p, ok := s.Properties.Get("shape"); ok {
		p.Enum = []any{""}
	}
}

func TestSchema(t *testing.T) {
	golden.Check(t, "../../../docs/approvals.lock.schema.json", schema(t))
}

// The schema and Parse accept the same files.
func TestSchemaAgreesWithParse(t *testing.T) {
	var s check.Schema
	require.OK(t, json.Unmarshal([]byte(schema(t)), &s))
	resolved, err := s.Resolve(nil)
	require.OK(t, err)
	sample, err := os.ReadFile("testdata/sample.lock.json")
	require.OK(t, err)
	hash := strings.Repeat("a", 64)
	entry := func(s string) string {
		return `{"version": 1, "servers": {"a": {"tools": {"x": {` + strings.ReplaceAll(s, "HASH", hash) + `}}}}}`
	}
	for _, tt := range []struct {
		data string
		ok   bool
	}{
		{string(sample), true},
		{string(File{}.Bytes()), true},
		{string(File{tool.ID{Server: "a", Name: "x"}: {Hash: tool.Hash(hash)}}.Bytes()), true},
		{entry(`"hash": "HASH", "shape": "", "pending": false, "note": ""`), true},
		{entry(``), false},
		{entry(`"hash": "HASH", "shape": "x"`), false},
		{entry(`"hash": "HASHa"`), false},
		{entry(`"hash": "HASH", "pending": 1`), false},
		{entry(`"hash": "HASH", "other": 1`), false},
		{`{"version": 2, "servers": {}}`, false},
		{`{"servers": {}}`, false},
		{`{"version": 1}`, false},
		{`{"version": 1, "servers": {"a b": {}}}`, false},
		{`{"version": 1, "servers": {"a": {"x": {}}}}`, false},
		{`[]`, false},
	} {
		var value any
		require.OK(t, json.Unmarshal([]byte(tt.data), &value))
		_, err := Parse([]byte(tt.data))
		if said := resolved.Validate(value); (err == nil) != tt.ok || (said == nil) != tt.ok {
			t.Errorf("%s\nParse: %v\nschema: %v\nwant it accepted: %t", tt.data, err, said, tt.ok)
		}
	}
}
