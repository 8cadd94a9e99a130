package mcp

import "encoding/json"

// ExtensionApps is the extension MCP Apps: a host shows the HTML page that a tool names, and the
// page calls tools of its server through the host.
const ExtensionApps = MetaPrefix + "ui"

// HasExtension reports whether capabilities declare an extension.
func HasExtension(capabilities json.RawMessage, extension string) bool {
	settings := field(field(capabilities, "extensions"), extension)
	return len(settings) > 0 && settings[0] == '{'
}
