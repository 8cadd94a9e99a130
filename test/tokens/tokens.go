// Package tokens counts what a text costs the model that reads it.
//
// A model pays for tokens, and bytes are a poor guess of them: a name of one word is one token,
// one of camel case is three. The counts are those of cl100k, a vocabulary that everybody can
// check; those of current models differ from it by a few per cent.
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
