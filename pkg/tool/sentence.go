package tool

import "strings"

// FirstSentence returns the first sentence of a description on one line.
func FirstSentence(description string) string {
	return strings.Join(strings.Fields(description), " ")
}
