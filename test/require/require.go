// Package require ends a test at once when something that it needs, and does not test, goes wrong.
package require

import (
	"encoding/json"
	"testing"
)

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// JSON returns the value of a JSON text, which must fit T.
func JSON[T any, S ~string | ~[]byte](t testing.TB, text S) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
