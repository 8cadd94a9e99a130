package review_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// marked writes runs as one text: [-deleted-], [+inserted+].
func marked(runs []review.Run) string {
	var b strings.Builder
	for _, r := range runs {
		switch r.Op {
		case review.Delete:
			b.WriteString("[-" + r.Text + "-]")
		case review.Insert:
			b.WriteString("[+" + r.Text + "+]")
		default:
			b.WriteString(r.Text)
		}
	}
	return b.String()
}

func TestWords(t *testing.T) {
	const long = "Start a new terminal process with intelligent state detection.\n\nPRIMARY TOOL FOR FILE ANALYSIS AND DATA PROCESSING"
	for _, tt := range []struct{ name, before, now, want string }{
		{"nothing", "", "", ""},
		{"the same", "Reads a file.", "Reads a file.", "Reads a file."},
		{"all of it is new", "", "Reads a file.", "[+Reads a file.+]"},
		{"all of it is gone", "Reads a file.", "", "[-Reads a file.-]"},
		{"one word more", long + " This is", long + " always This is", long + " [+always +]This is"},
		{"one word less", "a file or a folder", "a file or folder", "a file or [-a -]folder"},
		{"one other word", "Reads a file.", "Reads a folder.", "Reads a [-file-][+folder+]."},
		{"two other words beside each other", "Reads one file now.", "Reads all folders now.", "Reads [-one file-][+all folders+] now."},
		{"two other words apart", "Reads one small file.", "Writes one small folder.", "[-Reads-][+Writes+] one small [-file-][+folder+]."},
		{"words far apart", "a" + strings.Repeat(" x", 500) + " b", "c" + strings.Repeat(" x", 500) + " d", "[-a-][+c+]" + strings.Repeat(" x", 500) + " [-b-][+d+]"},
		{"punctuation", "Reads, then writes.", "Reads; then writes!", "Reads[-,-][+;+] then writes[-.-][+!+]"},
		{"a contraction is one word", "It don't stop", "It can’t stop", "It [-don't-][+can’t+] stop"},
		{"a name with an underscore is one word", "see read_file", "see read_files", "see [-read_file-][+read_files+]"},
		{"a hidden character", "paypal", "pay\u200bpal", "[-paypal-][+pay\u200bpal+]"},
		{"a hidden character between words", "pay pal", "pay \u200bpal", "pay [+\u200b+]pal"},
		{"a blank", "a b", "a  b", "a[- -][+  +]b"},
		{"a line end", "a\nb", "a\n\nb", "a\n[+\n+]b"},
		{"a script without blanks", "获取当前日期，以上海时区", "获取今天日期，以上海时区", "获取[-当前-][+今天+]日期，以上海时区"},
		{"an accent as a separate character", "cafe\u0301 now", "cafe now", "[-cafe\u0301-][+cafe+] now"},
		{"case", "Use this", "use this", "[-Use-][+use+] this"},
		{"moved", "one two three", "three one two", "[+three +]one two[- three-]"},
		{"nothing in common but blanks", "one two three", "four five six", "[-one two three-][+four five six+]"},
		{"no UTF-8", "a\xffb c", "a\xffb d", "a\xffb [-c-][+d+]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := marked(review.Words(tt.before, tt.now)); got != tt.want {
				t.Errorf("Words(%q, %q) = %q, want %q", tt.before, tt.now, got, tt.want)
			}
		})
	}
}

func TestLines(t *testing.T) {
	before := review.Indent([]byte(`{"name":"a","inputSchema":{"required":["x"],"type":"object"}}`))
	now := review.Indent([]byte(`{ "inputSchema":{"type":"object","required":["x","y"]}, "name":"a"}`))
	want := "{\n  \"inputSchema\": {\n    \"required\": [\n[-      \"x\"\n-][+      \"x\",\n      \"y\"\n+]    ],\n    \"type\": \"object\"\n  },\n  \"name\": \"a\"\n}"
	if got := marked(review.Lines(before, now)); got != want {
		t.Errorf("Lines = %s\nwant %s", got, want)
	}
	if got := review.Indent([]byte(`{"a":`)); got != `{"a":` {
		t.Errorf("Indent of no JSON = %s", got)
	}
}

// check checks that the runs of a comparison give back both texts, that no run is empty, that a
// deletion comes before an insertion, and that equal texts have only equal runs.
func check(t *testing.T, how string, before, now string, runs []review.Run) {
	t.Helper()
	var old, new strings.Builder
	for i, r := range runs {
		if r.Op != review.Insert {
			old.WriteString(r.Text)
		}
		if r.Op != review.Delete {
			new.WriteString(r.Text)
		}
		if r.Text == "" || i > 0 && (runs[i-1].Op == r.Op || runs[i-1].Op == review.Insert && r.Op == review.Delete) {
			t.Fatalf("%s(%q, %q): run %d of %q is empty or out of order", how, before, now, i, runs)
		}
	}
	if old.String() != before || new.String() != now {
		t.Fatalf("%s(%q, %q) gives back %q and %q", how, before, now, old.String(), new.String())
	}
	if same := !slices.ContainsFunc(runs, func(r review.Run) bool { return r.Op != review.Equal }); same != (before == now) {
		t.Fatalf("%s(%q, %q): has only equal runs: %v", how, before, now, same)
	}
}

func TestWordsGiveBackBothTexts(t *testing.T) {
	pieces := strings.Split("a|b|cd| | |  |\n|.|,|don't|'|é|获|取|🏴|\u200d|\u0301|\xff|_|9", "|")
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		text := func() string {
			var b strings.Builder
			for range rng.IntN(40) {
				b.WriteString(pieces[rng.IntN(len(pieces))])
			}
			return b.String()
		}
		before, now := text(), text()
		check(t, "Words", before, now, review.Words(before, now))
		check(t, "Lines", before, now, review.Lines(before, now))
	}
}

func FuzzWords(f *testing.F) {
	f.Add("Reads a file.", "Reads  a\nfolder.")
	f.Add("don't\u200b", "do\xffn’t获取")
	f.Fuzz(func(t *testing.T, before, now string) {
		check(t, "Words", before, now, review.Words(before, now))
		check(t, "Lines", before, now, review.Lines(before, now))
	})
}

// hostile returns the pairs of texts of 128 KiB that are most expensive to compare.
func hostile() map[string][2]string {
	rng := rand.New(rand.NewPCG(1, 2))
	list := func(n, of int, end string) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "%x%s", rng.IntN(of), end)
		}
		return b.String()
	}
	fresh := func(from int, end string) string {
		var b strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&b, "%x%s", from+i, end)
		}
		return b.String()
	}
	return map[string][2]string{
		"5000 lines, all different":  {list(5000, 1<<62, "\n"), list(5000, 1<<62, "\n")},
		"20000 words, all different": {fresh(0x10000, " "), fresh(0x20000, " ")},
		"20000 words of 16":          {list(20_000, 16, " "), list(20_000, 16, " ")},
		"20000 words of 4000":        {list(20_000, 4000, " "), list(20_000, 4000, " ")},
		"65000 lines of 2":           {list(65_000, 2, "\n"), list(65_000, 2, "\n")},
		"reversed":                   {fresh(0x10000, " "), reversed(fresh(0x10000, " "))},
		"one word":                   {strings.Repeat("x", 128<<10), strings.Repeat("y", 128<<10)},
		"single characters":          {strings.Repeat("获取", 21<<10), strings.Repeat("取取获", 14<<10)},
	}
}

func reversed(s string) string {
	list := strings.Fields(s)
	slices.Reverse(list)
	return strings.Join(list, " ")
}

func TestHostileTexts(t *testing.T) {
	for name, pair := range hostile() {
		t.Run(name, func(t *testing.T) {
			check(t, "Words", pair[0], pair[1], review.Words(pair[0], pair[1]))
			check(t, "Lines", pair[0], pair[1], review.Lines(pair[0], pair[1]))
		})
	}
}
