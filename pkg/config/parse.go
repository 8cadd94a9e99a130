package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Version returns the lower-case hex SHA-256 of a file's bytes, which names
// that state of the file.
func Version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Override returns a with the operator's hints for the tool of that bare name:
// every matching override applies, in the order of the file.
func (s Server) Override(name string, a tool.Annotations) tool.Annotations {
	for _, o := range s.Annotations {
		if tool.MatchGlob(o.Glob, name) {
			a = a.Override(o.Hints)
		}
	}
	return a
}

// Parse reads mcp_config.json. A file with anything wrong in it yields no
// config; the error is then [Faults], which names everything at once.
func Parse(data []byte) (*Config, error) { return nil, errors.New("not written yet") }

// Schema returns the JSON Schema of mcp_config.json, for editors.
func Schema() []byte { return nil }
