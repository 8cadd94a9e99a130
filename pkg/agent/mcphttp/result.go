package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxQuoted limits the bytes of an answer that is inside a JSON string, as in the result of a
// Lambda function. The limit of Lambda is 6 MiB, and includes the headers. Quotes and backslashes
// double in a string, so an answer within its own limit may still exceed maxQuoted.
const maxQuoted = 6<<20 - 16<<10

// The values of resultType.
const (
	resultComplete = `"` + mcp.ResultComplete + `"`
	resultAsks     = `"` + mcp.ResultInputRequired + `"`
	resultTask     = `"` + mcp.ResultTask + `"`
)

// A decorator adds to a result the members that the protocol requires.
type decorator struct {
	list       bool           // the result is a list of tools or other items
	kept       bool           // the client may cache it for some time
	item       tool.Kind      // the kind of the item, if the result is not a tool's
	plain      bool           // the result never contains a question
	tasks      bool           // the result may be a task
	modern     bool           // of the stateless protocol
	checked    bool           // the client validates structuredContent with the schema
	serverInfo []byte         // of the gateway; only in the stateless protocol
	meta       rawjson.Object // of the request
}

// decorator returns the decorator of a request's answer.
func (h *handler) decorator(q *request, list bool) decorator {
	return decorator{list: list, kept: list, modern: q.modern, serverInfo: h.serverInfo, meta: q.msg.Meta}
}

// decorate adds the members that the protocol requires, and removes members that the client cannot
// read. A result's type and server info belong to one connection. Therefore decorate replaces the
// upstream's values, or removes them if the client's protocol has no such member. All other values
// keep their bytes.
func (d decorator) decorate(result json.RawMessage) (json.RawMessage, error) {
	o, err := rawjson.Split(result, rawjson.Lenient)
	if err != nil {
		return nil, fmt.Errorf("result of the backend: %w", err)
	}
	asks := false
	if !d.list {
		switch t := string(o.Get("resultType")); {
		case t == "", t == resultComplete, t == resultTask && d.tasks:
		case t != resultAsks, d.plain:
			return d.unusable(answersOddly)
		case !d.modern:
			return d.unusable(asksOldClient)
		default:
			if refused := mcp.Undeclared(o.Get("inputRequests"), d.meta.Get(mcp.MetaClientCapabilities)); refused != nil {
				return nil, d.undeclared(refused)
			}
			asks = true
		}
	}
	changed := d.checked && string(o.Get("isError")) == "true" && moveStructured(&o)
	if d.kept && !asks {
		// A cache must never give this result to another caller.
		changed = o.Set("cacheScope", []byte(`"private"`))
		if o.Get("ttlMs") == nil {
			changed = o.Set("ttlMs", []byte(`0`))
		}
	}
	signed, err := d.sign(&o)
	if err != nil {
		return nil, err
	}
	if !changed && !signed {
		return result, nil
	}
	return o.Bytes(), nil
}

// sign sets the type of a result and the server info, and reports whether it changed the result.
func (d decorator) sign(o *rawjson.Object) (bool, error) {
	var meta rawjson.Object
	var err error
	own := o.Get("_meta")
	if own != nil {
		meta, err = rawjson.Split(own, rawjson.Lenient)
	}
	if !d.modern {
		changed := o.Delete("resultType")
		if err != nil || !meta.Delete(mcp.MetaServerInfo) {
			return changed, nil //nolint:nilerr // no object, or nothing in it
		}
		if o.Delete("_meta"); len(meta) > 0 {
			o.Add("_meta", meta.Bytes())
		}
		return true, nil
	}
	t := string(o.Get("resultType"))
	isOther := !d.list && (t == resultAsks || t == resultTask && d.tasks)
	changed := !isOther && o.Set("resultType", []byte(resultComplete))
	if err != nil && string(own) != "null" {
		return false, fmt.Errorf("_meta of a result: %w", err)
	}
	if meta.Set(mcp.MetaServerInfo, d.serverInfo) {
		changed = o.Set("_meta", meta.Bytes())
	}
	return changed, nil
}

// moveStructured removes structuredContent, because a client that validates it with the output
// schema would report an error. If a result has no other content, the model gets structuredContent
// as text.
func moveStructured(o *rawjson.Object) bool {
	structured := o.Get("structuredContent")
	if structured == nil {
		return false
	}
	o.Delete("structuredContent")
	if c := bytes.Join(bytes.Fields(o.Get("content")), nil); len(c) == 0 || string(c) == "[]" {
		o.Set("content", textContent(string(structured)))
	}
	return true
}

// toolError returns a result that a model reads and acts on.
func toolError(text string) json.RawMessage {
	return append(append([]byte(`{"content":`), textContent(text)...), `,"isError":true}`...)
}

func textContent(text string) []byte {
	return append(append([]byte(`[{"type":"text","text":`), rawjson.Quote(text)...), `}]`...)
}

var errTooLong = errors.New("answer is over the limit")

// tooLarge returns the failure of a request whose answer is longer than limit bytes.
func tooLarge(limit int) *outcome.CallError {
	return &outcome.CallError{Delivered: true, Limit: limit, Outcome: outcome.Outcome{
		Status: outcome.Available, Reason: outcome.ReasonTooLarge,
	}}
}

// exceeded returns the limit, in bytes, that an answer with this result would exceed, or 0. The
// argument limit applies to every answer. If quoted is set, the answer is inside a JSON string, and
// maxQuoted applies too.
func exceeded(result json.RawMessage, limit int, quoted bool) int {
	const around = mcp.MaxID + 64 // the envelope
	if len(result)+around > limit {
		return limit
	}
	const widest = 6 // one byte as \u00XX
	if !quoted || len(result)*widest+around <= maxQuoted || quotedLen(result)+around <= maxQuoted {
		return 0
	}
	return maxQuoted
}

// quotedLen returns the length of b as a string of encoding/json, without HTML escapes and without
// the two quotes.
func quotedLen(b []byte) int {
	n := 0
	for i := 0; i < len(b); {
		c := b[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
				n += 2
			case c < 0x20:
				n += 6
			default:
				n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
			n += 6
		} else {
			n += size
		}
		i += size
	}
	return n
}
