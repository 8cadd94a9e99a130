// Package require ends a test if something fails that the test needs but does not check.
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

// JSON decodes a JSON text into a T. An error ends the test.
func JSON[T any, S ~string | ~[]byte](t testing.TB, text S) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
