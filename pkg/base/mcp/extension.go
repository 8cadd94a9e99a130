package mcp

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// Extensions of the protocol.
const (
	// ExtensionApps is the extension MCP Apps: a host shows the HTML page that a tool names, and the
	// page calls tools of its server through the host.
	ExtensionApps = MetaPrefix + "ui"

	// ExtensionTasks is the extension with which a call's result comes later, by tasks/get.
	ExtensionTasks = MetaPrefix + "tasks"
)

// HasExtension reports whether capabilities declare an extension.
func HasExtension(capabilities json.RawMessage, extension string) bool {
	settings := field(field(capabilities, "extensions"), extension)
	return len(settings) > 0 && settings[0] == '{'
}

// LacksExtension returns the refusal of a request whose client has not declared an extension.
// message is for the client.
func LacksExtension(extension, message string) *Error {
	required := rawjson.Object{{Name: extension, Value: []byte("{}")}}
	extensions := rawjson.Object{{Name: "extensions", Value: required.Bytes()}}
	data := rawjson.Object{{Name: "requiredCapabilities", Value: extensions.Bytes()}}
	return &Error{Code: CodeMissingCapability, Message: message, Data: data.Bytes()}
}
