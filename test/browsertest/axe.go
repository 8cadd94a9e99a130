package browsertest

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
)

var axeSource = sync.OnceValues(func() (string, error) {
	data, err := os.ReadFile(repo.Path("test/testclients/node_modules/axe-core/axe.min.js"))
	return string(data), err
})

// axe returns the source of axe-core.
func axe(t testing.TB) string {
	t.Helper()
	source, err := axeSource()
	if err != nil {
		local.Missing(t, "axe-core is not installed: make clients")
	}
	return source
}

// A violation is a rule of axe-core that a page breaks.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// Options of axe-core that select only the rules for colors, or all other rules.
const (
	colors = `runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}, `
	layout = `rules: {'color-contrast': {enabled: false}}, `
)

// accessible fails the test for each rule of axe-core that the current page violates. rules selects
// rules; "" selects all. The debugging protocol injects axe-core, so the page's content security
// policy does not block it.
func (b *Tab) accessible(rules string) {
	b.T.Helper()
	for _, v := range b.violations(rules) {
		var where []string
		for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
			where = append(where, n.HTML+"\n"+n.FailureSummary)
		}
		b.T.Errorf("%s, %s: axe %s (%s): %s, %d times:\n%s", b.Path(), b.look.Name, v.ID, v.Impact, v.Help, len(v.Nodes), strings.Join(where, "\n"))
	}
}

func (b *Tab) violations(rules string) []violation {
	b.T.Helper()
	source := axe(b.T)
	if !Eval[bool](b, `typeof axe !== 'undefined'`) {
		Eval[bool](b, source+"\n;true")
	}
	return Eval[[]violation](b, `axe.run(document, {`+rules+`resultTypes: ['violations']}).then(r =>
		r.violations.map(v => ({id: v.id, impact: v.impact || '', help: v.help, nodes: v.nodes.map(n => ({html: n.html.slice(0, 300), failureSummary: n.failureSummary}))})))`)
}
