package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// Before a question a definition takes at most so much of a screen: the person still sees what they
// are asked about.
const (
	maxReviewLines = 40
	maxReviewWidth = 100 // characters of a line: a longer one is several
)

// showReview prints what a person reads before a decision about an item: what it is, what was found
// in it, and the words that were added and removed since it was approved. If there is nothing to
// compare with, it prints the text of the definition of now. The last line names the command that
// prints all.
func showReview(w io.Writer, t decide.Tool) {
	marker{w: w}.summary(t)
	var texts strings.Builder
	marker{w: &texts, brief: true}.texts(t)
	lines, more := reviewLines(texts.String())
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	if more > 0 {
		fmt.Fprintf(w, "… and %s\n", text.Count(more, "more line"))
	}
	all := "portcullis diff " + typed(t.ID)
	if isApproved(t) { // diff prints no text of it
		all += " -o json"
	}
	fmt.Fprintf(w, "all       %s\n", all)
}

// reviewLines returns texts in lines that fit on a screen, each with its sign, and how many more lines
// there are than the first maxReviewLines. The name of a part does not begin its line, so that it
// cannot imitate the lines before it.
func reviewLines(texts string) (lines []string, more int) {
	for line := range strings.SplitSeq(texts, "\n") {
		sign, rest := "text      ", line
		if strings.HasPrefix(line, "  ") {
			sign, rest = line[:min(4, len(line))], line[min(4, len(line)):]
		}
		for r := []rune(rest); len(r) > 0; {
			n := min(len(r), maxReviewWidth)
			if blank := slices.Index(r[n/2:n], ' '); n < len(r) && blank >= 0 { // not in a word
				for n > 0 && r[n-1] != ' ' {
					n--
				}
			}
			if len(lines) < maxReviewLines {
				lines = append(lines, sign+string(r[:n]))
			} else {
				more++
			}
			r = r[n:]
		}
	}
	return lines, more
}
