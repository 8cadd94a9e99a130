package tokens

import "testing"

// The examples and their cl100k tokens come from the OpenAI cookbook.
func TestCount(t *testing.T) {
	for text, want := range map[string]int{
		"":                             0,
		"hello world":                  2,
		"tiktoken is great!":           6,
		"antidisestablishmentarianism": 6,
		"2 + 2 = 4":                    7,
		"お誕生日おめでとう":                    9,
	} {
		if got := Count(t, text); got != want {
			t.Errorf("%q has %d tokens, want %d", text, got, want)
		}
	}
}
