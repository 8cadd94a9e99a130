package search

import (
	"cmp"
	"strings"
)

const (
	maxGap  = 3  // words between a negation and its verb
	maxVerb = 16 // bytes of a word that can be a verb
)

// intentOf reads the verbs of a query. It allocates only for negated clauses.
func intentOf(text string) intent {
	p := parser{text: text}
	for p.next() {
		p.step(string(p.lower[:p.length]))
	}
	if p.inside {
		p.leave(p.end)
	}
	return p.in.withoutConflicts()
}

// A parser reads a query word by word.
type parser struct {
	text string
	in   intent

	from, to int // the word that was read last
	end      int // of the word before it
	lower    [maxVerb]byte
	length   int    // of the word in lower, without apostrophes and what is over maxVerb
	gap      byte   // the separator before it: ' ', ',' or, for any other end of a clause, '.'
	prev     remark // about the word before it

	waits   int  // words in which the verb of a negation can come; 0: there is no negation
	start   int  // where the negation begins
	gerunds bool // its verb ends in ing
	passive bool // be has come

	inside bool // a negated clause
	verb   verb // its first one
	object int  // where that ends
	joint  byte // before a further verb of the clause: '&' for and, '|' for or, ',' or 0
	cut    int  // where the clause ends if no verb follows the joint
}

// A remark is what matters of a word for the next one.
type remark byte

const (
	plain   remark = iota
	got            // get is the verb of the query: get rid
	instead        // of
	rather         // than
	unable         // did not, cannot, is not: a complaint rules nothing out
)

// next reads a word, and the separator before it.
func (p *parser) next() bool {
	p.end, p.gap, p.length = p.to, ' ', 0
	i := p.to
	for i < len(p.text) {
		size, c := symbol(p.text, i)
		if isLetter(c) {
			break
		}
		switch i += size; {
		case strings.IndexByte(";:!?()\n", c) >= 0, c == '.' && (i == len(p.text) || p.text[i] == ' '):
			p.gap = '.'
		case c == ',' && p.gap == ' ':
			p.gap = ','
		}
	}
	if p.from = i; i == 0 || strings.IndexByte(" \n\t", p.text[i-1]) >= 0 {
		p.in.words++
	}
	for i < len(p.text) {
		size, c := symbol(p.text, i)
		if !isLetter(c) && c != '\'' {
			break
		}
		if i += size; c != '\'' && p.length < maxVerb {
			p.lower[p.length] = c
			p.length++
		}
	}
	p.to = i
	return p.from < i
}

// symbol returns the byte at i in lower case, and its size. The punctuation of Unicode counts as ASCII.
func symbol(text string, i int) (size int, c byte) {
	switch c := text[i]; {
	case 'A' <= c && c <= 'Z':
		return 1, c + 'a' - 'A'
	case c != 0xe2 || !strings.HasPrefix(text[i:], "\u2000"[:2]):
		return 1, c
	case strings.HasPrefix(text[i:], "’"):
		return len("’"), '\''
	}
	return min(3, len(text)-i), ';'
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c >= 0x80 }

// step reads one word.
func (p *parser) step(w string) {
	prev := p.prev
	p.prev = plain
	if p.inside && p.stays(w) {
		return
	}
	if p.waits > 0 && p.awaited(w) {
		return
	}
	if p.negates(w, prev) {
		p.waits, p.passive = maxGap+1, false
		return
	}
	p.ask(w, prev)
}

// negates reports whether a negation begins with this word.
func (p *parser) negates(w string, prev remark) bool {
	switch w {
	case "without", "avoid", "avoiding", "no":
		p.start, p.gerunds = p.from, true
		return prev != unable
	case "not", "never", "neither", "dont", "doesnt", "wont", "shouldnt", "mustnt":
		p.start, p.gerunds = p.from, false
		return prev != unable
	case "of":
		p.gerunds = true
		return prev == instead
	case "than":
		p.gerunds = false
		return prev == rather
	case "instead":
		p.start, p.prev = p.from, instead
	case "rather":
		p.start, p.prev = p.from, rather
	case "can", "could", "did", "is", "are", "was", "were":
		p.prev = unable
	}
	return false
}

// awaited reports whether a word is part of a negation whose verb has not come before.
func (p *parser) awaited(w string) bool {
	p.waits--
	v := noVerb
	if p.gap == ' ' {
		if isFiller(w) {
			p.passive = p.passive || w == "be" || w == "being" || w == "want"
			return true
		}
		if v = p.form(w); !p.gerunds {
			v = cmp.Or(v, verbOf(w))
		}
	}
	p.waits = 0
	if p.inside = rulesOut(v); p.inside {
		p.in.negated[v] = true
		p.verb, p.object, p.joint = v, p.to, 0
	}
	return v != noVerb
}

// form returns the class of a verb in a form that it has after any negation.
func (p *parser) form(w string) verb {
	v := gerund(w)
	if v == noVerb && p.passive {
		v = participle(w)
	}
	return v
}

// isFiller reports whether a word can be between a negation and its verb.
func isFiller(w string) bool {
	switch w {
	case "to", "be", "being", "get", "getting", "let", "letting", "need", "want", "have", "having", "even", "ever",
		"also", "first", "please", "any", "anything", "it", "them", "the":
		return true
	case "only", "merely", "simply": // not only
		return false
	}
	return strings.HasSuffix(w, "ly") && verbOf(w) == noVerb
}

// stays reports whether a word is part of the clause.
func (p *parser) stays(w string) bool {
	if p.joint == 0 {
		p.cut = p.end
	}
	joint := p.joint
	switch w {
	case "but", "just", "instead", "then", "while", "because", "so":
		return p.leave(p.cut)
	case "and":
		p.joint = '&'
	case "or", "nor":
		p.joint = '|'
	}
	switch {
	case p.gap == '.':
		return p.leave(p.cut)
	case p.joint != joint:
		return true
	case p.gap == ',':
		joint = ','
	case joint == 0:
		return true
	}
	p.joint = 0
	v, base := p.form(w), verbOf(w)
	if !p.gerunds && joint == '|' {
		v = cmp.Or(v, base)
	}
	switch {
	case v != noVerb && (p.gerunds || joint == '|'):
		p.in.negated[v] = p.in.negated[v] || rulesOut(v)
	case joint == ',', joint == '&' && base != noVerb:
		return p.leave(p.cut)
	}
	return true
}

// leave ends a clause. It returns false: the next word is not part of it.
func (p *parser) leave(end int) bool {
	p.in.clauses = append(p.in.clauses, clause{from: p.start, to: end, object: p.object, verb: p.verb})
	p.inside, p.joint = false, 0
	return false
}

// ask takes the first verb of the query.
func (p *parser) ask(w string, prev remark) {
	if w == "rid" {
		if prev == got {
			p.in.asks = deletes
		}
		return
	}
	if p.in.asks != noVerb {
		return
	}
	p.in.asks = cmp.Or(verbOf(w), inflected(w, "ing"))
	if w == "get" || w == "getting" {
		p.prev = got
	}
}
