package upstreamtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// ReadCatalog reads a file of tool definitions and returns them by server. The file contains a
// list, or an object with a list in "tools". An entry is a definition. It may have its name in
// "tool" instead of "name", and its server in "server"; entries without a server are under "". All
// other members keep their bytes.
func ReadCatalog(path string) (map[string][]json.RawMessage, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		var file struct {
			Tools []json.RawMessage `json:"tools"`
		}
		err = json.Unmarshal(data, &file)
		list = file.Tools
	} else {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read catalog %q: %w", path, err)
	}
	out := map[string][]json.RawMessage{}
	for i, raw := range list {
		server, def, err := definition(raw)
		if err != nil {
			return nil, fmt.Errorf("read catalog %q: tool %d: %w", path, i, err)
		}
		out[server] = append(out[server], def)
	}
	return out, nil
}

// definition turns an entry into a definition, without its server.
func definition(raw json.RawMessage) (server string, def json.RawMessage, err error) {
	fields, err := rawjson.Split(raw, rawjson.Lenient)
	if err != nil {
		return "", nil, err
	}
	server = rawjson.Text(fields.Get("server"))
	name := fields.Get("tool")
	if name == nil {
		return server, raw, nil
	}
	fields.Delete("server")
	fields.Delete("tool")
	slices.SortFunc(fields, func(a, b rawjson.Member) int { return strings.Compare(a.Name, b.Name) })
	return server, slices.Insert(fields, 0, rawjson.Member{Name: "name", Value: name}).Bytes(), nil
}

// Tool returns a small definition. Its params are optional strings. annotations may be "".
func Tool(name, description, annotations string, params ...string) json.RawMessage {
	b := fmt.Appendf(nil, `{"name":%s,"description":%s,"inputSchema":{"type":"object","properties":{`, rawjson.Quote(name), rawjson.Quote(description))
	for i, p := range params {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `%s:{"type":"string"}`, rawjson.Quote(p))
	}
	b = append(b, "}}"...)
	if annotations != "" {
		b = fmt.Appendf(b, `,"annotations":%s`, annotations)
	}
	return append(b, '}')
}

// Fleet starts one server for each server of a catalog, with the options o and the server's tools.
func Fleet(t TB, catalog map[string][]json.RawMessage, o Options) map[string]*Server {
	t.Helper()
	out := make(map[string]*Server, len(catalog))
	for name, tools := range catalog {
		o.Tools = tools
		out[name] = New(t, o)
	}
	return out
}
