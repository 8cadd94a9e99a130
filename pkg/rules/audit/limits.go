package audit

import (
	"encoding/json"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits of a line. Most texts of a line come from outside the gateway, so they must be cut.
const (
	maxName  = 512  // characters of each text except the note
	maxNote  = 2000 // characters
	maxRules = 16   // rules in each list of rules
	maxKinds = 16   // statuses in the counts of a search
)

// Name returns s as an audit line contains it: escaped, and cut to its limit.
func Name(s string) string { return text.Clip(s, maxName) }

// bounded returns the line with its texts escaped and cut to their limits.
func (l Line) bounded() Line {
	for _, s := range []*string{
		&l.Kind, &l.Agent, &l.Method, &l.Human, &l.Client, &l.Tool, &l.ArgsAsked, &l.ArgsSent, &l.Path, &l.Decision, &l.Status, &l.Limit,
		&l.Outcome, &l.ResultID, &l.Trace, &l.Actor, &l.Action, &l.Subject, &l.Request, &l.Source, &l.Shown,
	} {
		*s = Name(*s)
	}
	for _, h := range []*tool.Hash{&l.Definition, &l.Hash, &l.From} {
		*h = tool.Hash(text.Clip(string(*h), maxName))
	}
	l.Note = text.Clip(l.Note, maxNote)
	l.Rules, l.Would = clipped(l.Rules), clipped(l.Would)
	if len(l.Arguments) > 2*maxRedacted || !json.Valid(l.Arguments) {
		l.Arguments = nil
	}
	if l.Found != nil && len(l.Found.Locked) > maxKinds {
		l.Found = &Matches{Callable: l.Found.Callable}
	}
	return l
}

func clipped(list []string) []string {
	var out []string
	for _, s := range list[:min(len(list), maxRules)] {
		out = append(out, text.Clip(s, maxName))
	}
	return out
}

// encode returns the line as JSON, in one line of text.
func (l Line) encode() ([]byte, error) { return rawjson.Encode(l.bounded()) }

// Attrs returns the line as attributes of a log record, with "audit": 1 before them. The time of
// the line is not a [slog.KindTime], so that a handler that renames the time of log records does
// not rename it.
func (l Line) Attrs() []slog.Attr {
	raw, err := l.encode()
	if err != nil { // the encoding of texts and numbers cannot fail
		panic(err)
	}
	members, err := rawjson.Split(raw, rawjson.Lenient)
	if err != nil {
		panic(err)
	}
	out := []slog.Attr{slog.Int("audit", 1)}
	for _, m := range members {
		out = append(out, slog.Any(m.Name, m.Value))
	}
	return out
}
