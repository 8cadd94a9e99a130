package mcp

import "strings"

// TraceID returns the id of the trace in a traceparent of W3C Trace Context, version 00: 32
// lower-case hex digits. It returns "" for any other text.
func TraceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return ""
	}
	notHex := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }
	if strings.ContainsFunc(strings.Join(parts, ""), notHex) || strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return ""
	}
	return parts[1]
}
