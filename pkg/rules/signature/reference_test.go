package signature

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCheckReferences(t *testing.T) {
	for name, tt := range map[string]struct {
		schema string
		fault  string // "": none
	}{
		"none":                        {`{"type":"object","properties":{"a":{"type":"string"}}}`, ""},
		"into $defs":                  {`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`, ""},
		"to the root":                 {`{"properties":{"a":{"$ref":"#"}}}`, ""},
		"to an anchor":                {`{"properties":{"a":{"$dynamicRef":"#node"}},"$defs":{"n":{"$dynamicAnchor":"node"}}}`, ""},
		"recursive":                   {`{"properties":{"a":{"$recursiveRef":"#"}}}`, ""},
		"round in a circle":           {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, ""},
		"to nothing":                  {`{"$ref":"#/$defs/none"}`, ""},
		"own $id":                     {`{"$id":"https://acme.example/tool.json","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}`, ""},
		"nested $id":                  {`{"properties":{"a":{"$id":"https://acme.example/a.json","type":"string"}}}`, ""},
		"draft-07":                    {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, ""},
		"2020-12":                     {`{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, ""},
		"OpenAPI 3.1":                 {`{"$schema":"https://spec.openapis.org/oas/3.1/dialect/base"}`, ""},
		"a property called $ref":      {`{"properties":{"$ref":{"type":"string","description":"https://acme.example/"},"$id":{"type":"string"}}}`, ""},
		"a definition called $ref":    {`{"$defs":{"$ref":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/$ref"}}}`, ""},
		"a pattern called $ref":       {`{"patternProperties":{"$ref":{"type":"string"}}}`, ""},
		"an enum":                     {`{"properties":{"a":{"enum":[{"$ref":"https://acme.example/"}]}}}`, ""},
		"a const":                     {`{"properties":{"a":{"const":{"$ref":"https://acme.example/"}}}}`, ""},
		"a default":                   {`{"properties":{"a":{"default":{"$ref":"https://acme.example/"}}}}`, ""},
		"an example":                  {`{"properties":{"a":{"examples":[{"$ref":"a.json"}],"example":{"$ref":"a.json"}}}}`, ""},
		"a text":                      {`{"description":"use \"$ref\": \"https://acme.example/\" here"}`, ""},
		"a required property":         {`{"required":["$ref"],"dependentRequired":{"$ref":["a"]}}`, ""},
		"true and false":              {`{"properties":{"$a":true,"b":false},"additionalProperties":false}`, ""},
		"a reference that is none":    {`{"$ref":7}`, ""},
		"remote":                      {`{"properties":{"a":{"$ref":"https://evil.example/a.json"}}}`, `has a $ref to "https://evil.example/a.json"`},
		"remote with a fragment":      {`{"$ref":"https://evil.example/a.json#/$defs/a"}`, `has a $ref to`},
		"relative":                    {`{"$ref":"other.json"}`, `has a $ref to "other.json"`},
		"empty":                       {`{"$ref":""}`, `has a $ref to ""`},
		"urn":                         {`{"$ref":"urn:a:b"}`, `has a $ref to`},
		"scheme-relative":             {`{"$ref":"//evil.example/a"}`, `has a $ref to`},
		"its own $id":                 {`{"$id":"https://acme.example/a","properties":{"b":{"$ref":"https://acme.example/a"}}}`, `has a $ref to`},
		"dynamic":                     {`{"$dynamicRef":"https://evil.example/a#b"}`, `has a $dynamicRef to`},
		"recursive, elsewhere":        {`{"$recursiveRef":"https://evil.example/a"}`, `has a $recursiveRef to`},
		"key escaped":                 {`{"\u0024ref":"https://evil.example/a"}`, `has a $ref to`},
		"value escaped":               {`{"$ref":"\u0068ttps://evil.example/a"}`, `has a $ref to "https://evil.example/a"`},
		"in items":                    {`{"items":[{"$ref":"a.json"}]}`, `has a $ref to`},
		"in allOf":                    {`{"properties":{"a":{"allOf":[{},{"$ref":"a.json"}]}}}`, `has a $ref to`},
		"in additionalProperties":     {`{"additionalProperties":{"$ref":"a.json"}}`, `has a $ref to`},
		"in a definition":             {`{"definitions":{"a":{"$ref":"a.json"}}}`, `has a $ref to`},
		"in an unknown keyword":       {`{"x-more":{"$ref":"a.json"}}`, `has a $ref to`},
		"below a property of a key":   {`{"properties":{"default":{"$ref":"a.json"},"enum":{"$ref":"#"}}}`, `has a $ref to`},
		"hidden in data":              {`{"properties":{"a":{"$ref":"#/properties/b/default"},"b":{"default":{"$ref":"a.json"}}}}`, `has a $ref to "a.json"`},
		"hidden, percent-encoded":     {`{"$ref":"#/%64efault","default":{"$ref":"a.json"}}`, `has a $ref to "a.json"`},
		"hidden in an enum":           {`{"$ref":"#/enum/0","enum":[{"$ref":"a.json"}]}`, `has a $ref to "a.json"`},
		"another base":                {`{"properties":{"a":{"$id":"https://evil.example/","$ref":"#/$defs/a"}}}`, `below a nested $id`},
		"another base, further up":    {`{"$defs":{"a":{"$id":"b.json","properties":{"c":{"$ref":"#"}}}}}`, `below a nested $id`},
		"another base of draft 4":     {`{"properties":{"a":{"id":"https://evil.example/","items":{"$ref":"#a"}}}}`, `below a nested $id`},
		"another base by a ref":       {`{"$ref":"#/$defs/a","$defs":{"b":{"$ref":"#/$defs/c"},"c":{"type":"string"},"a":{"$id":"b","allOf":[{"$ref":"#/$defs/b"}]}}}`, `below a nested $id`},
		"a dialect of its own":        {`{"$schema":"https://evil.example/schema","type":"object"}`, `is written in the dialect "https://evil.example/schema"`},
		"a dialect like the official": {`{"$schema":"https://json-schema.org.evil.example/draft-07/schema"}`, `is written in the dialect`},
		"a dialect further down":      {`{"properties":{"a":{"$schema":"other.json"}}}`, `is written in the dialect`},
	} {
		t.Run(name, func(t *testing.T) {
			if !json.Valid([]byte(tt.schema)) {
				t.Fatalf("the test's schema is no JSON: %s", tt.schema)
			}
			err := CheckReferences(json.RawMessage(tt.schema))
			if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
				t.Errorf("CheckReferences(%s) = %v, want %q", tt.schema, err, tt.fault)
			}
		})
	}
}

func TestCheckReferencesDepth(t *testing.T) {
	for depth, ok := range map[int]bool{250: true, 300: false, 5000: false} {
		schema := `{"$id":"x","not":` + strings.Repeat(`{"not":`, depth) + `{"$ref":"#"}` + strings.Repeat(`}`, depth) + `}`
		if err := CheckReferences(json.RawMessage(schema)); (err == nil) != ok {
			t.Errorf("%d levels: %v", depth, err)
		}
	}
}

func TestCheckReferencesText(t *testing.T) {
	err := CheckReferences(json.RawMessage(`{"$ref":"https://evil.example/` + strings.Repeat("é", 5000) + `"}`))
	if err == nil || len(err.Error()) > 400 {
		t.Errorf("error of %d bytes", len(fmt.Sprint(err)))
	}
}

// FuzzCheckReferences checks that nothing panics, that a schema is accepted as data, and that a
// remote reference next to the schema is always found.
func FuzzCheckReferences(f *testing.F) {
	for _, seed := range []string{
		`{"$ref":"#/$defs/a","$defs":{"a":{"$id":"b","$ref":"#"}}}`, `{"\u0024ref":"x"}`, `{"enum":[{"$ref":"x"}],"$ref":"#/enum/0"}`,
		`{"properties":{"$ref":{"$ref":"#"}},"$schema":"http://json-schema.org/draft-07/schema#"}`, `[]`, `{"a":[[{"$dynamicRef":"#x"}]]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		if !jsontext.Value(schema).IsValid() || len(schema) > 1<<14 {
			return
		}
		err := CheckReferences(schema)
		if beside := CheckReferences(fmt.Appendf(nil, `{"allOf":[%s,{"$ref":"https://evil.example/"}]}`, schema)); beside == nil {
			t.Errorf("a reference beside %s is not found", schema)
		}
		data := CheckReferences(fmt.Appendf(nil, `{"default":%s,"$defs":{}}`, schema))
		if data != nil {
			t.Errorf("as data, %s is refused: %v", schema, data)
		}
		hidden := CheckReferences(fmt.Appendf(nil, `{"default":{"$ref":"https://evil.example/","not":%s},"not":{"$ref":"#/default"}}`, schema))
		if hidden == nil {
			t.Errorf("a reference beside %s in data that a reference points at is not found", schema)
		}
		if again := CheckReferences(schema); fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("%v, then %v", err, again)
		}
	})
}
