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

	from, to int // of the current word
	end      int // of the previous word
	lower    [maxVerb]byte
	length   int    // of the word in lower: without apostrophes, at most maxVerb
	gap      byte   // the separator before the word: ' ', ',', or '.' for any other end of a clause
	prev     remark // about the previous word

	waits   int  // number of words that may contain the verb of a negation; 0: no negation
	start   int  // where the negation begins
	gerunds bool // the verb of the negation ends in ing
	passive bool // the negation contains be

	inside bool // the current word is in a negated clause
	verb   verb // first verb of the clause
	object int  // end of this verb
	joint  byte // before a further verb of the clause: '&' for and, '|' for or, ',' or 0
	cut    int  // end of the clause if no verb follows the joint
}

// A remark is a fact about a word that matters for the next word.
type remark byte

const (
	plain   remark = iota
	got            // the verb of the query is get, as in "get rid"
	instead        // "of" may follow
	rather         // "than" may follow
	unable         // as in "did not" or "cannot": a complaint rules nothing out
)

// next reads a word and the separator before it. It returns false at the end of the text.
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

// symbol returns the byte at i in lower case, and its size. Unicode punctuation counts as ASCII
// punctuation.
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

// step updates the intent with the current word.
func (p *parser) step(w string) {
	prev := p.prev
	p.prev = plain
	if p.inside && p.stays(w) {
		return
	}
	if p.waits > 0 && p.extendsNegation(w) {
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

// extendsNegation reports whether a word is part of a negation whose verb has not come before.
func (p *parser) extendsNegation(w string) bool {
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

// form returns the class of a verb in a form that is possible after every negation.
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
	case "only", "merely", "simply": // as in "not only"
		return false
	}
	return strings.HasSuffix(w, "ly") && verbOf(w) == noVerb
}

// stays reports whether a word is part of the current negated clause.
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

// leave ends the clause at end. It returns false, because the current word is not part of the
// clause.
func (p *parser) leave(end int) bool {
	p.in.clauses = append(p.in.clauses, clause{from: p.start, to: end, object: p.object, verb: p.verb})
	p.inside, p.joint = false, 0
	return false
}

// ask stores the first verb of the query.
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
	p.in.asks = cmp.Or(verbOf(w), inflectedVerb(w, "ing"))
	if w == "get" || w == "getting" {
		p.prev = got
	}
}
