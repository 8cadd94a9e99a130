package search

import (
	"slices"
	"strings"
)

// A tool loses a share of its score because of its verb. The values were chosen with public query
// sets: docs/search-quality.md.
const (
	clashCost    = .2 // if its verb differs from the verb of a short query
	negationCost = .5 // if the query rules out its verb
	fewWords     = 12 // maximum length of a short query; the first verb of a longer text says less
)

// An intent holds the class of actions that a query asks for, and the classes that it rules out.
type intent struct {
	asks    verb        // class of the first verb that is not negated
	words   int         // of the query
	negated [verbs]bool // classes that the query rules out
	clauses []clause
}

// A clause is a part of a text that rules out a verb.
type clause struct {
	from, to int
	object   int  // end of its first verb
	verb     verb // class of its first verb
}

// withoutConflicts returns the intent without the negation of the verb that it asks for. For
// example, "remove a fact without deleting the node" asks for a tool that deletes.
func (in intent) withoutConflicts() intent {
	if in.negated[in.asks] {
		in.negated[in.asks] = false
		in.clauses = slices.DeleteFunc(in.clauses, func(c clause) bool { return c.verb == in.asks })
	}
	return in
}

// factors returns, for each class of verbs, the share of its score that a tool of the class keeps.
func (in *intent) factors(m mixing) (f [verbs]float64) {
	for v := range verbs {
		f[v] = 1
		switch {
		case in.negated[v]:
			f[v] = 1 - m.negation
		case in.words <= fewWords && clash(in.asks, v):
			f[v] = 1 - m.clash
		}
	}
	return f
}

// clash reports whether a query for verb a does not ask for verb b. One tool often creates and
// changes.
func clash(a, b verb) bool {
	if a == changes {
		a = creates
	}
	if b == changes {
		b = creates
	}
	return a != b && a != noVerb && b != noVerb
}

// withoutNegated returns a text without the negated clauses of the intent.
func (in *intent) withoutNegated(text string) string {
	if len(in.clauses) == 0 {
		return text
	}
	var b strings.Builder
	from := 0
	for _, c := range in.clauses {
		b.WriteString(text[from:c.from])
		b.WriteByte('\n')
		from = c.to
	}
	b.WriteString(text[from:])
	return b.String()
}

// rulesOut reports whether a negated verb rules out the tools of its class.
func rulesOut(v verb) bool { return v == changes || v == deletes || v == sends }
