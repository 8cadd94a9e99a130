package finding

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/signature"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A scanner reads the texts of one definition.
type scanner struct {
	*lexicon
	kind  tool.Kind
	own   string // name of the tool
	names Names

	dec     *jsontext.Decoder // positioned after the current text; nil: the text is not from the definition
	place   string            // used instead of dec
	isName  bool
	found   []Finding
	more    int
	bytes   int // of all texts
	scripts scripts

	hits      []hit // of the current text
	sentences []set // classes in each of its sentences
}

func newScanner(d tool.Definition, names Names) *scanner {
	return &scanner{lexicon: theLexicon(), kind: d.Kind, own: d.Name, names: names}
}

// read reads every string of a definition and the names of its members. It skips the name of a
// tool or a prompt; the name of a resource may be any text.
func (s *scanner) read(raw []byte) {
	s.each(raw, s.text)
}

// each calls the function do with each string of a JSON text. It stops at invalid JSON.
func (s *scanner) each(raw []byte, do func(string)) {
	s.dec = jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	defer func() { s.dec, s.isName = nil, false }()
	toolName := false
	for {
		switch s.dec.PeekKind() {
		case '"':
			value, err := s.dec.ReadValue()
			if err != nil {
				return
			}
			depth := s.dec.StackDepth()
			kind, n := s.dec.StackIndex(depth)
			s.isName = kind == '{' && n%2 == 1
			if toolName {
				toolName = false
				continue
			}
			str := unquote(value)
			toolName = s.isName && depth == 1 && str == "name" && s.kind != tool.Resource
			s.bytes += len(str)
			do(str)
		case 0:
			return
		default:
			toolName = false
			if _, err := s.dec.ReadToken(); err != nil {
				return
			}
		}
	}
}

func unquote(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	out, _ := jsontext.AppendUnquote(nil, value) // the error only says that invalid UTF-8 was replaced
	return string(out)
}

// where returns the place of the current text.
func (s *scanner) where() string {
	if s.dec == nil {
		return s.place
	}
	var b strings.Builder
	depth := 0
	for part := range s.dec.StackPointer().Tokens() {
		depth++
		switch kind, _ := s.dec.StackIndex(depth); {
		case kind == '[':
			b.WriteString("[" + part + "]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		name := text.Clip(text.Reveal(part), maxName)
		if name == "" || strings.ContainsAny(name, ".[] \"") {
			name = strconv.Quote(name)
		}
		b.WriteString(name)
	}
	return text.Clip(b.String(), maxWhere)
}

// text scans one text.
func (s *scanner) text(str string) {
	ascii := true
	for i := 0; i < len(str) && ascii; i++ {
		ascii = str[i] < 0x7f && (str[i] >= ' ' || str[i] == '\n' || str[i] == '\t')
	}
	if !ascii {
		s.hidden(str)
		in := s.letters(str)
		for _, p := range phrases {
			if in == 0 {
				break
			}
			if at := strings.Index(str, p.text); at >= 0 {
				s.add(p.code, at, at+len(p.text), show(str[at:]))
			}
		}
	}
	if s.isName {
		s.name(str)
		return
	}
	s.words(str)
	s.apply(str)
}

// spoken scans a name as if it were a sentence.
func (s *scanner) spoken(name string) {
	said := strings.ReplaceAll(strings.ReplaceAll(name, "_", " "), "-", " ")
	s.words(said)
	s.apply(said)
}

// name scans the name of a member.
func (s *scanner) name(str string) {
	if s.words(str); len(s.hits) > 0 || strings.ContainsAny(str, "_-") {
		s.apply(str)
		s.spoken(str)
	}
	if len(str) > maxText {
		return
	}
	switch name := strings.ToLower(strings.ReplaceAll(str, "-", "_")); {
	case slices.ContainsFunc(keyNames, func(part string) bool { return strings.Contains(name, part) }):
		s.add(secrets, 0, len(str), show(str))
	case slices.Contains(asks, name):
		s.add(context, 0, len(str), show(str))
	}
}

// hidden finds characters that a person does not see. Adjacent characters are one finding.
func (s *scanner) hidden(str string) {
	from, to, turns := -1, -1, false
	report := func() {
		if from < 0 {
			return
		}
		code := hidden
		if turns {
			code = bidi
		}
		s.add(code, from, to, revealed(str[from:to]))
	}
	for i, r := range text.Hidden(str) {
		if i != to {
			report()
			from, turns = i, false
		}
		to = i + len(string(r))
		turns = turns || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
	}
	report()
}

// revealed returns hidden characters as numbers, and the text of tag characters: U+E0000 and on
// represent ASCII, which models read and no font shows.
func revealed(run string) string {
	said := strings.Map(func(r rune) rune {
		if r > 0xE0020 && r < 0xE007F || r == 0xE0020 {
			return r - 0xE0000
		}
		return -1
	}, run)
	if len(said) > 1 {
		return show(fmt.Sprintf("⟨%d tag characters: %s⟩", len([]rune(run)), said))
	}
	return show(run)
}

// references finds parts of a schema at another address.
func (s *scanner) references(schema []byte) {
	if schema == nil {
		return
	}
	if err := signature.CheckReferences(schema); err != nil {
		s.add(remote, 0, 0, show(err.Error()))
	}
}

const (
	sizeFactor = 2    // a definition has jumped in size if it is this many times as long
	sizeLeast  = 1000 // and longer by this many bytes
)

// compare adds findings about differences from the approved definition.
func (s *scanner) compare(before []byte) {
	old := &scanner{kind: s.kind}
	old.each(before, func(str string) { old.scripts.add(str) })
	if s.bytes > old.bytes*sizeFactor && s.bytes > old.bytes+sizeLeast {
		s.add(size, 0, 0, fmt.Sprintf("%d → %d bytes of text", old.bytes, s.bytes))
	}
	if more := s.scripts &^ old.scripts; more != 0 {
		s.add(script, 0, 0, more.String())
	}
}
