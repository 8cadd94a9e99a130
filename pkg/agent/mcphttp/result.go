package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxQuoted bounds an answer as a JSON string, which is how a Lambda function hands
// it on: 6 MiB in all, less the headers beside it. Quotes and backslashes double
// there, so a body under its own limit may still be over this one.
const maxQuoted = 6<<20 - 16<<10

// What a result is, as resultType says.
const (
	resultComplete = `"` + mcp.ResultComplete + `"`
	resultAsks     = `"` + mcp.ResultInputRequired + `"`
)

// A decorator adds to a result what the protocol wants beside what the backend gave.
type decorator struct {
	list       bool           // of tools, or of other items
	kept       bool           // the client may keep it, for a time
	item       tool.Kind      // of what is not a tool's
	plain      bool           // it never asks for input
	modern     bool           // of the stateless protocol
	checked    bool           // the client holds structuredContent against the tool's output schema
	serverInfo []byte         // who answers; only in the stateless protocol
	meta       rawjson.Object // of the request
}

// decorator returns the decorator of what answers a request.
func (h *handler) decorator(q *request, list bool) decorator {
	return decorator{list: list, kept: list, modern: q.modern, serverInfo: h.serverInfo, meta: q.msg.Meta}
}

// decorate adds the members that the protocol wants to a result, and takes away what no
// client can read. What a result says of its kind and of who answers concerns one connection:
// of an upstream's it is replaced, or left out where the client's protocol has no such member.
// The bytes of every other value stay as they are.
func (d decorator) decorate(result json.RawMessage) (json.RawMessage, error) {
	o, err := rawjson.Split(result, rawjson.Lenient)
	if err != nil {
		return nil, fmt.Errorf("result of the backend: %w", err)
	}
	asks := false
	if !d.list {
		switch t := string(o.Get("resultType")); {
		case t == "", t == resultComplete:
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
		// Another caller must never be given this out of a cache.
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

// sign says of a result what kind it is and who answers, and reports whether it changed it.
func (d decorator) sign(o *rawjson.Object) (bool, error) {
	var meta rawjson.Object
	var err error
	given := o.Get("_meta")
	if given != nil {
		meta, err = rawjson.Split(given, rawjson.Lenient)
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
	changed := (d.list || string(o.Get("resultType")) != resultAsks) && o.Set("resultType", []byte(resultComplete))
	if err != nil && string(given) != "null" {
		return false, fmt.Errorf("_meta of a result: %w", err)
	}
	if meta.Set(mcp.MetaServerInfo, d.serverInfo) {
		changed = o.Set("_meta", meta.Bytes())
	}
	return changed, nil
}

// moveStructured removes structuredContent: a client that checks it against the output schema
// throws. If it was all that there was, the model reads it as text.
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

// toolError makes a result that a model reads and acts on.
func toolError(text string) json.RawMessage {
	return append(append([]byte(`{"content":`), textContent(text)...), `,"isError":true}`...)
}

func textContent(text string) []byte {
	return append(append([]byte(`[{"type":"text","text":`), rawjson.Quote(text)...), `}]`...)
}

var errTooLong = errors.New("answer is over the limit")

// exceeded returns the limit, in bytes, that an answer with this result would exceed: limit
// itself, or that of the answer as a string, if it is quoted on its way; 0 if it can be sent.
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

// quotedLen returns the length of b as encoding/json writes it as a string, without
// escaping HTML and without the two quotes.
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
