package mcp

import "slices"

// A LogLevel is the severity of a log message, from debug to emergency. The zero LogLevel is none.
type LogLevel int

// levels are the names of severities (RFC 5424), lowest first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// ParseLogLevel returns the severity of a name, or 0 if the name is no severity.
func ParseLogLevel(name string) LogLevel { return LogLevel(slices.Index(levels, name) + 1) }

// String returns the name, or "" for no severity.
func (l LogLevel) String() string {
	if l == 0 {
		return ""
	}
	return levels[l-1]
}
