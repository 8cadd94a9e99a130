package config

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// schema returns the JSON Schema (2020-12) of mcp_config.json, for editors. It is generated from
// the types that [Parse] reads into. Parse also refuses faults that a schema cannot express, such
// as names that clash.
func schema() []byte {
	r := jsonschema.Reflector{
		Anonymous: true, // no $id from the path of the Go package
		Namer: func(t reflect.Type) string {
			return strings.ToLower(strings.TrimPrefix(t.Name(), "file"))
		},
		ExpandedStruct: true,
	}
	s := r.Reflect(&file{})
	s.Title = "Portcullis mcp_config.json"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error()) // the types in file.go can be encoded
	}
	return append(b, '\n')
}

// Patterns for URIs, and for names of a server's items.
const (
	uriPattern = `\S+`
	idPattern  = `[A-Za-z0-9_.-]{1,128}:([A-Za-z0-9_.-]{1,128}|\*|prompt:[A-Za-z0-9_.*-]{1,128}|resource:` + uriPattern + `)`
)

// JSONSchemaExtend adds the names that the file's maps allow.
func (file) JSONSchemaExtend(s *jsonschema.Schema) {
	names := &jsonschema.Schema{Pattern: `^[A-Za-z0-9_.-]{1,128}$`}
	for _, key := range []string{"mcpServers", "toolsets"} {
		if p, ok := s.Properties.Get(key); ok {
			p.PropertyNames = names
		}
	}
	if p, ok := s.Properties.Get("toolsets"); ok {
		p.AdditionalProperties.Items.Pattern = "^" + idPattern + "$"
	}
	if p, ok := s.Properties.Get("words"); ok {
		p.PropertyNames = &jsonschema.Schema{Pattern: `^[A-Za-z0-9_.-]{1,128}:[A-Za-z0-9_.*-]{1,128}$`}
		most, longest := uint64(maxWordsOfGlob), uint64(maxWordLength)
		p.AdditionalProperties.MaxItems = &most
		p.AdditionalProperties.Items.MaxLength, p.AdditionalProperties.Items.Pattern = &longest, `[^\s]`
	}
}

// JSONSchemaExtend adds the pattern of a glob.
func (fileServer) JSONSchemaExtend(s *jsonschema.Schema) {
	const glob = `^[A-Za-z0-9_.*-]{1,128}$`
	if p, ok := s.Properties.Get("disabled_resources"); ok {
		p.Items.Pattern = "^" + uriPattern + "$"
	}
	for _, key := range []string{"enabled_tools", "disabled_tools", "disabled_prompts"} {
		if p, ok := s.Properties.Get(key); ok {
			p.Items.Pattern = glob
		}
	}
	s.OneOf = []*jsonschema.Schema{{Required: []string{"url"}}, {Required: []string{"command"}}}
	if p, ok := s.Properties.Get("annotations"); ok {
		p.PropertyNames = &jsonschema.Schema{Pattern: glob}
	}
}

// JSONSchemaExtend adds the pattern of names of tools across servers.
func (fileTools) JSONSchemaExtend(s *jsonschema.Schema) {
	for _, key := range []string{"enabled", "disabled"} {
		if p, ok := s.Properties.Get(key); ok {
			p.Items.Pattern = "^" + idPattern + "$|^[A-Za-z0-9_.-]{1,128}$"
		}
	}
}

// JSONSchemaExtend adds the members of each type of target.
func (fileNotify) JSONSchemaExtend(s *jsonschema.Schema) {
	for _, t := range []struct{ name, keys, not string }{{"slack", "url", "secret topic"}, {"webhook", "url secret", "topic"}, {"sns", "topic", "url secret"}} {
		one := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Required: strings.Fields(t.keys)}
		one.Properties.Set("type", &jsonschema.Schema{Const: t.name})
		for _, key := range strings.Fields(t.not) {
			one.Properties.Set(key, jsonschema.FalseSchema)
		}
		s.OneOf = append(s.OneOf, one)
	}
}
