package search

import (
	"slices"
	"strings"
	"testing"
)

func TestLiterals(t *testing.T) {
	for text, want := range map[string]string{
		"summarise ~/notes/2026 plan.md":                     "file",
		"what is in /var/log/syslog?":                        "file",
		`open C:\Users\kim\a.txt`:                            "file",
		"show 'report.pdf'.":                                 "file",
		"diff ./a.go and ../b/c.go":                          "file",
		"compare src/main.go with it":                        "file",
		"fetch https://example.com/a?b=c#d, please":          "url",
		"open (www.example.com)":                             "url",
		"copy s3://bucket/key":                               "url",
		"write to kim.lee+x@mail.example.com.":               "email",
		"weather on 2026-11-21":                              "date",
		"free at 2026-11-21T14:00:00Z":                       "date",
		"free on 21.11.2026 or 11/21/26":                     "date",
		"ping 10.0.0.1 and 2001:db8::1":                      "ip",
		"show commit 3f2a9c1":                                "hash",
		"mail a@b.example the file /etc/hosts of 2026-01-02": "email date file",
		"the url https://a.example again https://b.example":  "url",

		"read and/or write":                     "",
		"version 1.2.3 of node.js":              "file", // node.js is also the name of a file
		"a ratio of 3/4 at 10:30":               "",
		"defaced facades":                       "", // a hash needs a digit
		"1234567 tickets for $3.50":             "",
		"e.g. this. i.e. that...":               "",
		"@kim #123 C++ 100%":                    "",
		"":                                      "",
		"/":                                     "",
		"data:image/png;base64,AAAA":            "",
		"https://" + strings.Repeat("a", 5_000): "",
	} {
		if got := strings.Join(literals(text), " "); got != want {
			t.Errorf("%.80q has %q, want %q", text, got, want)
		}
	}
}

func TestLiteralsAddTheirWord(t *testing.T) {
	ix := indexOf(t, []Doc{{Name: "open", Description: "Show a file."}, {Name: "hosts", Description: "List the hosts of a network."}})
	r := ix.Rank(ix.Query("/etc/hosts"), fullSet(2), 2, Options{})
	if len(r.Hits) != 2 || r.Hits[0].Lexical == 0 || r.Hits[1].Lexical == 0 {
		t.Errorf("found %+v, want both documents: by a word in the path, and by the word of its kind", r.Hits)
	}
	// The kind counts once if the query already has its word.
	once, twice := ix.Query("show the file /tmp/x"), ix.query("show the file /tmp/x", nil)
	if !slices.Equal(once.stems, twice.stems) || !slices.Equal(once.weights, twice.weights) {
		t.Errorf("%v %v, want %v %v", once.stems, once.weights, twice.stems, twice.weights)
	}
}

// FuzzLiterals checks that every text has each kind at most once.
func FuzzLiterals(f *testing.F) {
	f.Add("open /etc/hosts and https://example.com on 2026-11-21")
	f.Add("\x00/\xff@.\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := literals(text)
		if len(got) > len(kinds) || len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
			t.Errorf("%q has %v", text, got)
		}
	})
}
