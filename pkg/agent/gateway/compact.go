package gateway

import (
	"strconv"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// answers are buffers for compact answers.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// appendCompact appends an answer without schemas and scores to dst, in the form of
// [rawjson.Encode]. Most searches use this form, so it is fast.
func (m *matches) appendCompact(dst []byte) []byte {
	dst = append(dst, `{"tools":[`...)
	for i := range m.Tools {
		t := &m.Tools[i]
		dst = member(comma(dst, i), `{"name":`, t.Name)
		dst = member(dst, `,"signature":`, t.Signature)
		if t.Lossy {
			dst = append(dst, `,"lossy":true`...)
		}
		dst = member(dst, `,"description":`, t.Description)
		dst = append(member(dst, `,"call_with":`, t.CallWith), '}')
	}
	for i, name := range m.More {
		if i == 0 {
			dst = append(dst, `],"more":[`...)
		}
		dst = rawjson.AppendText(comma(dst, i), name)
	}
	dst = strconv.AppendInt(append(dst, `],"total":`...), int64(m.Total), 10)
	if len(m.Disabled) > 0 {
		dst = append(dst, `,"disabled":[`...)
	}
	for i := range m.Disabled {
		d := &m.Disabled[i]
		dst = member(comma(dst, i), `{"name":`, d.Name)
		dst = member(dst, `,"description":`, d.Description)
		dst = member(dst, `,"status":`, string(d.Status))
		if d.Note != "" {
			dst = member(dst, `,"note":`, d.Note)
		}
		dst = append(dst, '}')
	}
	if len(m.Disabled) > 0 {
		dst = append(dst, ']')
	}
	if len(m.Remediation) > 0 {
		dst = append(append(dst, `,"remediation":`...), m.Remediation...)
	}
	if m.Notice != "" {
		dst = member(dst, `,"notice":`, m.Notice)
	}
	return append(dst, '}')
}

// member appends a prefix and a value.
func member(dst []byte, before, value string) []byte {
	return rawjson.AppendText(append(dst, before...), value)
}

// comma appends the separator before element i of a list.
func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}
