// Package tokens counts what a text costs the model that reads it.
//
// A model pays for tokens, and bytes are a poor guess: a name of one word is one token, a name in
// camel case is three. The counts use cl100k, a vocabulary that everybody can check. The counts of
// current models differ by a few per cent.
package tokens

import (
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// Reading the vocabulary takes a moment, so it is read once.
var cl100k = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.Cl100kBase) })

// Count returns how many tokens of cl100k text has.
func Count(t testing.TB, text string) int {
	t.Helper()
	codec, err := cl100k()
	if err != nil {
		t.Fatal(err)
	}
	n, err := codec.Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
