package search

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	long := strings.Repeat("q", 100)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing has no words", "", nil},
		{"punctuation has no words", " -- _ . \x00\x1f", nil},
		{"words are lower case", "Create Issue", []string{"create", "issue"}},
		{"stop words are dropped", "show me the weather for a city", []string{"weather", "city"}},
		{"words for what tools do are no stop words", "find list search read", []string{"find", "list", "search", "read"}},
		{"underscore separates", "create_pull_request", []string{"create", "pull", "request"}},
		{"case change separates", "createPullRequest", []string{"create", "pull", "request"}},
		{"the last capital of a run begins a word", "parseHTTPStatus", []string{"parse", "http", "status"}},
		{"a run of capitals is one word", "HTTP", []string{"http"}},
		{"letters and digits stay together", "ec2 md5sum s3", []string{"ec2", "md5sum", "s3"}},
		{"a digit before a capital separates", "s3Bucket EC2Fleet", []string{"s3", "bucket", "ec2", "fleet"}},
		{"accents are letters", "Éclair CaféBar", []string{"éclair", "café", "bar"}},
		{"CJK becomes pairs", "検索する", []string{"検索", "索す", "する"}},
		{"one CJK character is a word", "file 木", []string{"file", "木"}},
		{"a mixed word becomes pairs", "pdf文", []string{"pd", "df", "f文"}},
		{"Hangul becomes pairs", "파일목록", []string{"파일", "일목", "목록"}},
		{"invalid UTF-8 separates", "read\xfffile", []string{"read", "file"}},
		{"a long word is cut", long, []string{long[:maxWordBytes]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, SplitWords(c.text)); diff != "" {
				t.Errorf("Split(%q) (-want +got):\n%s", c.text, diff)
			}
		})
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"getHTTPStatus of the EC2Fleet", "検索するtool", "\xff\xfe", strings.Repeat("é", 50)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range SplitWords(text) {
			if w == "" || len(w) > maxWordBytes || !utf8.ValidString(w) {
				t.Errorf("Split(%q) has the word %q", text, w)
			}
			if hasCJK(w) && utf8.RuneCountInString(w) > 2 {
				t.Errorf("Split(%q) has %q, more than a pair of CJK characters", text, w)
			}
		}
	})
}
