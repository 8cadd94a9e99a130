package gateway

import (
	"strconv"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// answers are the texts of compact answers, while they are written.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// appendCompact writes an answer without schemas and scores at the end of dst, as [rawjson.Encode] does.
// It is what agents ask for most, and their search waits for it.
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

// member writes what stands before a value, and the value.
func member(dst []byte, before, value string) []byte {
	return rawjson.AppendText(append(dst, before...), value)
}

// comma writes what stands before element i of a list.
func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}
