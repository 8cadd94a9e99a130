// Package tokens counts the tokens of a text that a model reads.
//
// The cost of a text depends on its tokens. Bytes are a poor estimate: a name of one word can be
// one token, and a name in camel case can be three. The counts use the public vocabulary cl100k.
// The counts of current models differ by a few percent.
package tokens

import (
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// cl100k reads the vocabulary once, because reading it is slow.
var cl100k = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.Cl100kBase) })

// Count returns the number of cl100k tokens in text.
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
