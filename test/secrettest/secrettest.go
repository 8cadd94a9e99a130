// Package secrettest finds the secrets of sign-ins at servers in what a test can read: answers,
// logs, files and stores. Test issuers put a mark into each token, code and client secret that they
// issue. The state of a sign-in is no secret, because it is in the address that the gateway shows.
package secrettest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// mark is in each secret. `make test` searches its own output for it.
const mark = "MarkOfATestIssuer"

// marks are the forms of the mark: as it is, in base64, and in base64 twice, as JSON of a document
// is in an item.
var marks = func() []string {
	all := append([]string{mark}, encoded(mark)...)
	for _, once := range encoded(mark) {
		all = append(all, encoded(once)...)
	}
	return all
}()

// issued counts the secrets of this process.
var issued atomic.Int64

// Mark returns the text that an issuer in another process puts into its secrets.
func Mark() string {
	issued.Add(1)
	return mark
}

// New returns a new secret of a kind, such as "refresh".
func New(kind string) string { return fmt.Sprintf("%s-%s-%d", mark, kind, issued.Add(1)) }

// Issued reports whether an issuer of this process has issued a secret.
func Issued() bool { return issued.Load() > 0 }

// Absent fails the test if a text contains a secret. The failure names only the place.
func Absent(t testing.TB, place, text string) {
	t.Helper()
	if Issued() && contains(text) {
		t.Errorf("%s contains a token, a code, a verifier or a client secret of a sign-in", place)
	}
}

// AbsentBelow fails the test if a file below a folder contains a secret.
func AbsentBelow(t testing.TB, folder string) {
	t.Helper()
	if !Issued() {
		return
	}
	require.OK(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var data []byte
			data, err = os.ReadFile(path)
			Absent(t, path, string(data))
		}
		if errors.Is(err, fs.ErrNotExist) { // the test removed it
			return nil
		}
		return err
	}))
}

func contains(text string) bool {
	for _, m := range marks {
		if strings.Contains(text, m) {
			return true
		}
	}
	return containsVerifier(text)
}

// encoded returns the characters in base64 that depend only on text, for each position of its first
// byte in a group of three bytes.
func encoded(text string) (all []string) {
	const group = 3
	for position := range group {
		data := strings.Repeat("x", position) + text
		whole := len(data) / group * group
		code := base64.StdEncoding.EncodeToString([]byte(data[:whole]))
		all = append(all, code[(position*8+5)/6:])
	}
	return all
}

// The gateway makes verifiers itself, so they have no mark. Their form is unusual enough.
const (
	verifierLen = 52
	minDistinct = 12 // a verifier has 26 different characters on average
)

// containsVerifier reports whether text has a word of as many letters and digits of base32 as a
// verifier.
func containsVerifier(text string) bool {
	for at := verifierLen - 1; at < len(text); at += verifierLen { // one is in each verifier
		if !isBase32(text[at]) {
			continue
		}
		from, to := at, at+1
		for from > 0 && isBase32(text[from-1]) {
			from--
		}
		for to < len(text) && isBase32(text[to]) {
			to++
		}
		if to-from == verifierLen && distinct(text[from:to]) >= minDistinct {
			return true
		}
	}
	return false
}

func isBase32(c byte) bool { return 'A' <= c && c <= 'Z' || '2' <= c && c <= '7' }

func distinct(text string) int {
	seen := map[rune]bool{}
	for _, c := range text {
		seen[c] = true
	}
	return len(seen)
}
