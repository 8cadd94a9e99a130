package search

import (
	"cmp"
	"strings"
)

// A verb is a class of actions: of the action of a tool, or of the action that a query asks for.
type verb uint8

// The classes of verbs. Indexes contain these numbers: see [verb.term].
const (
	noVerb verb = iota
	reads
	creates
	changes
	deletes
	sends
	verbs // number of classes
)

// verbOf returns the class of a verb in its base form.
func verbOf(word string) verb {
	switch word {
	case "analyse", "analyze", "browse", "calculate", "check", "compare", "compute", "count",
		"describe", "detect", "display", "download", "estimate", "examine", "explain", "explore",
		"extract", "fetch", "find", "get", "identify", "inspect", "list", "locate", "look",
		"lookup", "monitor", "preview", "query", "read", "retrieve", "return", "scan", "search",
		"see", "show", "summarise", "summarize", "tell", "track", "validate", "verify", "view",
		"watch":
		return reads
	case "add", "append", "book", "build", "clone", "compose", "copy", "create", "draft", "draw",
		"duplicate", "generate", "insert", "make", "register", "reserve", "save", "schedule",
		"store", "upload":
		return creates
	case "adjust", "alter", "amend", "archive", "assign", "change", "configure", "convert",
		"disable", "edit", "enable", "merge", "modify", "move", "overwrite", "patch", "rename",
		"replace", "reschedule", "resize", "rewrite", "set", "toggle", "update", "write":
		return changes
	case "cancel", "clear", "delete", "destroy", "discard", "drop", "erase", "kill", "prune",
		"purge", "remove", "revoke", "rid", "strip", "terminate", "trash", "uninstall", "unlink",
		"wipe":
		return deletes
	case "broadcast", "email", "forward", "invite", "mail", "notify", "post", "publish", "reply",
		"send", "share", "submit", "tweet":
		return sends
	}
	return noVerb
}

// inflectedVerb returns the class of a verb with this ending.
func inflectedVerb(word, ending string) verb {
	base, ok := strings.CutSuffix(word, ending)
	n := len(base)
	if !ok || n < 3 {
		return noVerb
	}
	if v := verbOf(base); v != noVerb {
		return v
	}
	switch base[n-1] {
	case 'i': // modified
		return verbOf(base[:n-1] + "y")
	case base[n-2]: // dropping
		return verbOf(base[:n-1])
	}
	return verbOf(base + "e")
}

// gerund returns the class of a verb that ends in ing, or of a noun for such an action.
func gerund(word string) verb {
	switch word {
	case "deletion", "deletions", "removal":
		return deletes
	case "changes", "modification", "modifications":
		return changes
	}
	return inflectedVerb(word, "ing")
}

// participle returns the class of a verb in its past participle.
func participle(word string) verb {
	switch word {
	case "set", "overwritten", "written":
		return changes
	case "sent":
		return sends
	}
	return inflectedVerb(word, "ed")
}

// term returns the text of the term whose postings are the documents of the class. No word has such
// a text, and no word is at one edit from it.
func (v verb) term() string { return string([]byte{0, '0' + byte(v)}) }

// descriptionVerb is how many bytes of a description addVerb searches for a verb.
const descriptionVerb = 80

// addVerb adds document i to its class: the class of the first verb of its name or, if the name has
// no verb, of the beginning of its description.
func (b *builder) addVerb(i uint32, d Doc) {
	v := noVerb
	b.grammar.each(d.Name, func(word []byte) {
		if v == noVerb {
			v = verbOf(string(word))
		}
	})
	if v == noVerb {
		b.grammar.each(d.Description[:min(len(d.Description), descriptionVerb)], func(word []byte) {
			if v == noVerb {
				w := string(word)
				v = cmp.Or(verbOf(w), inflectedVerb(w, "s"), inflectedVerb(w, "es"))
			}
		})
	}
	if v != noVerb {
		b.postings = append(b.postings, posting{term: b.term(v.term()), doc: i})
	}
}

// readVerbs returns the class of each document's verb, or nil if the index has no classes.
func (s *segment) readVerbs() (classes []verb) {
	for v := noVerb + 1; v < verbs; v++ {
		i, ok := s.find(v.term())
		if !ok {
			continue
		}
		if classes == nil {
			classes = make([]verb, s.docs)
		}
		for list := s.list(i); len(list) >= postingSize; list = list[postingSize:] {
			if doc, _ := firstPosting(list); doc < s.docs {
				classes[doc] = v
			}
		}
	}
	return classes
}

// verb returns the class of a document's verb.
func (s *segment) verb(doc int) verb {
	if s.verbs == nil {
		return noVerb
	}
	return s.verbs[doc]
}
