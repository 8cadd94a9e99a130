package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// The maximum size of a printed definition. A longer text would scroll the item's name off the
// screen before the question.
const (
	maxReviewLines = 40
	maxReviewWidth = 100 // characters of a line: a longer line continues on the next lines
)

// showReview prints the text to read before a decision about an item: what it is, the findings in
// it, and the words that were added and removed since its approval. If there is no approved
// version, it prints the current definition. The last line has the command that prints everything.
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
	if isApproved(t) { // for an approved definition, diff prints no text
		all += " -o json"
	}
	fmt.Fprintf(w, "all       %s\n", all)
}

// reviewLines breaks texts into lines that fit on a screen, and repeats the sign of a broken line.
// more is how many lines exceed maxReviewLines. A line without a sign gets the prefix "text". So no
// text of a definition can imitate the other lines of the review, such as the line of its findings.
func reviewLines(texts string) (lines []string, more int) {
	for line := range strings.SplitSeq(texts, "\n") {
		sign, rest := "text      ", line
		if strings.HasPrefix(line, "  ") {
			sign, rest = line[:min(4, len(line))], line[min(4, len(line)):]
		}
		for r := []rune(rest); len(r) > 0; {
			n := min(len(r), maxReviewWidth)
			// do not break within a word
			if blank := slices.Index(r[n/2:n], ' '); n < len(r) && blank >= 0 {
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
