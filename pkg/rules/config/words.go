package config

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits of words. They keep a sync fast, and the words much smaller than the servers' texts.
const (
	maxWordsOfGlob = 32   // entries of one glob
	maxWordLength  = 64   // characters of one entry
	maxWords       = 4000 // entries of a file
)

// Words are search words for tools, in addition to the texts of their servers. Agents never see
// them.
type Words []GlobWords // by glob

// GlobWords are the words of the tools of one glob.
type GlobWords struct {
	Glob  string // server:tool, server:* or another glob over the names of the server's tools
	Words []string
}

// ForTool returns the words of a tool from every matching glob, each once, in the order of the
// globs.
func (ws Words) ForTool(id tool.ID) []string {
	var out []string
	for _, w := range ws {
		if !w.Matches(id) {
			continue
		}
		for _, word := range w.Words {
			if !slices.Contains(out, word) {
				out = append(out, word)
			}
		}
	}
	return out
}

// Equal reports whether others has the same words.
func (ws Words) Equal(others Words) bool {
	return slices.EqualFunc(ws, others, func(a, b GlobWords) bool { return a.Glob == b.Glob && slices.Equal(a.Words, b.Words) })
}

// Matches reports whether the glob matches a tool. Prompts and resources have no words: they are
// listed, not searched.
func (w GlobWords) Matches(id tool.ID) bool {
	server, glob, _ := strings.Cut(w.Glob, ":")
	return id.Kind == tool.Tool && id.Server == server && tool.MatchGlob(glob, id.Name)
}

// words checks the operator's search words.
func (c *checker) words(cfg *Config, f map[string][]string, n *rawjson.Node, servers names) {
	if n == nil {
		return
	}
	total := 0
	for name, value := range n.All() {
		at, path := &rawjson.Node{Offset: value.NameOffset}, JoinPath("words", name)
		server, glob, _ := strings.Cut(name, ":")
		switch {
		case tool.ValidGlob(glob) != nil:
			c.fault(at, path, "%q is neither server:tool nor server:* or another glob over the names of tools", clip(name))
		case !servers.has(server):
			c.fault(at, path, "%q names a server that is not in mcpServers", clip(name))
		}
		list := f[name]
		if len(list) > maxWordsOfGlob {
			c.fault(value, path, "has %d words; there can be %d", len(list), maxWordsOfGlob)
		}
		for i, word := range list {
			c.searched(word, value.Kids[i], index(path, i))
		}
		total += len(list)
		cfg.Words = append(cfg.Words, GlobWords{name, list})
	}
	slices.SortFunc(cfg.Words, func(a, b GlobWords) int { return strings.Compare(a.Glob, b.Glob) })
	if total > maxWords {
		c.fault(n, "words", "has %s in all; there can be %d", text.Count(total, "word"), maxWords)
	}
}

// searched checks one entry: one or a few words, in one line.
func (c *checker) searched(word string, at *rawjson.Node, path string) {
	switch letter := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }; {
	case !strings.ContainsFunc(word, letter):
		c.fault(at, path, "%q has no letter and no digit, so it finds no tool", clip(word))
	case utf8.RuneCountInString(word) > maxWordLength:
		c.fault(at, path, "has %d characters; there can be %d", utf8.RuneCountInString(word), maxWordLength)
	case strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.fault(at, path, "%q is not one line of printable characters", clip(word))
	}
}
