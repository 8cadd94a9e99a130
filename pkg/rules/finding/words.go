package finding

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A hit is a word of a text that has a class.
type hit struct {
	class    set
	word     int // its index in the text
	commas   int // how many commas come before it
	sentence int
	from, to int
	text     string // quote for the finding, if the word is a tool's name; "": the text from here
}

// A reader splits one text into words.
type reader struct {
	*scanner
	str      string
	prose    bool // the text has more than one word
	at       int
	word     int
	commas   int
	sentence int
	checked  int             // no encoded run starts before this offset
	closed   map[string]bool // names of closed tags; nil: not computed
	buf      [24]byte        // the word in lower case
}

// words collects the words of a text that have a class, and adds findings that it recognizes by
// their form.
func (s *scanner) words(str string) {
	s.hits, s.sentences = s.hits[:0], append(s.sentences[:0], 0)
	r := reader{scanner: s, str: str, prose: strings.IndexByte(str, ' ') >= 0}
	for r.at < len(str) {
		if isWord(str[r.at]) {
			r.takeWord()
			continue
		}
		switch c := str[r.at]; c {
		case '.', '!', '?', ';':
			if r.at+1 == len(str) || str[r.at+1] == ' ' || str[r.at+1] == '\n' {
				r.endSentence()
			}
		case ',':
			r.commas++
		case '\n':
			if rest := strings.TrimLeft(str[r.at+1:], " \t"); rest == "" || strings.IndexByte("\n-*#", rest[0]) >= 0 {
				r.endSentence()
			}
		case '<', '[':
			r.tag()
		case '@':
			r.mail()
		case '+':
			r.phone()
		}
		r.at++
	}
}

func (r *reader) endSentence() {
	r.sentence++
	r.sentences = append(r.sentences, 0)
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
}

// takeWord reads the word that starts here.
func (r *reader) takeWord() {
	from := r.at
	n := r.fold()
	to := r.at
	r.word++
	if rest := r.str[to:]; strings.HasPrefix(rest, "://") {
		r.url(from)
		return
	}
	if to-from >= minRun && r.encoded(from) {
		return
	}
	if from == 0 || !strings.ContainsRune("-.", rune(r.str[from-1])) {
		r.names(from)
	}
	if n == 0 {
		return
	}
	class := r.lexicon.words[string(r.buf[:n])]
	if class == 0 {
		return
	}
	if class&r.key != 0 {
		r.keyPath(from, to, keyPlaces[string(r.buf[:n])])
		class &^= r.key
	}
	if class&r.shout != 0 && !capitals(r.str[from:to]) {
		class &^= r.shout
	}
	if class != 0 {
		r.hit(class, from, to, "")
	}
}

// hit notes a word.
func (r *reader) hit(class set, from, to int, text string) {
	if last := len(r.hits) - 1; class&r.not != 0 && last >= 0 && r.hits[last].word == r.word-1 && r.hits[last].class&r.do != 0 {
		class, from = class|r.never, r.hits[last].from
	}
	r.sentences[r.sentence] |= class
	r.hits = append(r.hits, hit{class, r.word, r.commas, r.sentence, from, to, text})
}

// fold skips a word and writes it to buf in lower case. It returns its length there, or 0 if it is
// longer than any word of a rule. An apostrophe between letters is part of a word.
func (r *reader) fold() int {
	n := 0
	for r.at < len(r.str) {
		letter, size := rune(r.str[r.at]), 1
		switch {
		case letter >= 'A' && letter <= 'Z':
			letter += 'a' - 'A'
		case letter >= utf8.RuneSelf:
			if letter, size = utf8.DecodeRuneInString(r.str[r.at:]); letter == '’' && n > 0 {
				letter = '\''
			}
			letter = plain(letter)
		}
		rest := r.str[r.at+size:]
		apostrophe := letter == '\'' && n > 0 && rest != "" && isWord(rest[0])
		if letter < utf8.RuneSelf && !isWord(byte(letter)) && !apostrophe || letter >= utf8.RuneSelf && !unicode.IsLetter(letter) && !unicode.IsMark(letter) {
			if n == 0 {
				r.at += size // the character is outside ASCII, and not a word
			}
			break
		}
		if n+size <= len(r.buf) {
			n += utf8.EncodeRune(r.buf[n:], letter)
		} else {
			n = len(r.buf) + 1
		}
		r.at += size
	}
	if n > len(r.buf) {
		return 0
	}
	return n
}

// plain returns the lower-case letter for a letter, even a wide or styled one.
func plain(r rune) rune {
	switch {
	case r >= 0xFF21 && r <= 0xFF3A || r >= 0xFF41 && r <= 0xFF5A:
		r -= 0xFF21 - 'A'
	case r >= 0x1D400 && r <= 0x1D6A3:
		if r = (r - 0x1D400) % 52; r < 26 {
			return 'a' + r
		}
		return 'a' + r - 26
	}
	return unicode.ToLower(r)
}

func capitals(word string) bool { return len(word) > 1 && strings.ToUpper(word) == word }

// apply finds the rules that match the collected words.
func (s *scanner) apply(str string) {
	next := map[string]int{} // by code: the sentence after the last one with a finding
	for i, h := range s.hits {
		if h.class&s.first == 0 {
			continue
		}
		for _, rule := range s.rules {
			if h.class&rule.steps[0].class == 0 || rule.with != 0 && s.sentences[h.sentence]&rule.with == 0 {
				continue
			}
			if next[rule.code] > h.sentence || rule.plain && s.denied(i) { // one finding in a sentence is enough
				continue
			}
			if end := s.follow(i, rule.steps[1:]); end >= 0 {
				quote := h.text
				if quote == "" {
					quote = show(str[h.from:])
				}
				s.add(rule.code, h.from, s.hits[end].to, quote)
				next[rule.code] = h.sentence + 1
			}
		}
	}
}

// denied reports whether hit i follows a word such as never.
func (s *scanner) denied(i int) bool {
	const near = 4
	for j := i - 1; j >= 0 && s.hits[j].sentence == s.hits[i].sentence && s.hits[i].word-s.hits[j].word <= near; j-- {
		if s.hits[j].class&s.never != 0 {
			return true
		}
	}
	return false
}

// governs reports whether the word at from applies to the word at to. A word such as never applies
// only if at most one word, or a text enclosed in two commas, is between them. "Do not guess, tell
// the user" is no order to keep silent. Any other word applies across every gap of its rule.
func (s *scanner) governs(from, to hit) bool {
	if from.class&s.never == 0 {
		return true
	}
	commas := to.commas - from.commas
	return commas == 2 || commas == 0 && to.word-from.word <= 2
}

// follow returns the last hit of the steps that follow hit i, or -1.
func (s *scanner) follow(i int, steps []step) int {
	if len(steps) == 0 {
		return i
	}
	for j := i + 1; j < len(s.hits); j++ {
		h := s.hits[j]
		if h.sentence != s.hits[i].sentence || h.word-s.hits[i].word-1 > steps[0].gap {
			return -1
		}
		if h.class&steps[0].class != 0 && s.governs(s.hits[i], h) {
			if end := s.follow(j, steps[1:]); end >= 0 {
				return end
			}
		}
	}
	return -1
}
