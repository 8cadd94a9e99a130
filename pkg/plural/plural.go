// Package plural writes numbers of things for people: "1 server", "2 servers".
// A text that says "1 servers" reads like one that nobody looked at.
package plural

import "strconv"

// Of returns n and the noun in its number. The plural takes an s.
func Of(n int, noun string) string { return strconv.Itoa(n) + " " + Noun(n, noun) }

// Noun returns the noun in the number of n things.
func Noun(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
