package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// marshal encodes v as compact JSON. It leaves <, > and & as they are: the
// reader is no browser, and every escape costs tokens.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// result makes a tools/call result of one text block.
func result(text string, isError bool, meta map[string]any) (json.RawMessage, error) {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return marshal(struct {
		Content []block        `json:"content"`
		IsError bool           `json:"isError,omitempty"`
		Meta    map[string]any `json:"_meta,omitempty"`
	}{[]block{{"text", text}}, isError, meta})
}

// maxEcho is how many bytes of what an agent sent are repeated to it.
const maxEcho = 80

// quote makes a string of the agent's fit for a message: on one line, marked as a
// quotation, and cut.
func quote(s string) string { return fmt.Sprintf("%q", cut(s)) }

// cut shortens s to maxEcho bytes, at a character.
func cut(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxEcho {
		return s
	}
	n := maxEcho
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
