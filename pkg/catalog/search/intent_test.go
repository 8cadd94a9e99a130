package search

import (
	"cmp"
	"slices"
	"testing"
)

// TestIntent analyzes queries: the requested verb, the negated verbs, and the remaining text.
func TestIntent(t *testing.T) {
	for _, c := range []struct {
		query, kept string // kept "": the whole query
		asks        verb
		negated     []verb
	}{
		{query: "read a file", asks: reads},
		{query: "Can you please DELETE it", asks: deletes},
		{query: "deleting old files", asks: deletes},
		{query: "dropping tables", asks: deletes},
		{query: "get rid of a record", asks: deletes},
		{query: "get a grid", asks: reads},
		{query: "history of changes on main", asks: noVerb},
		{query: "create_or_update_file", asks: creates},
		{query: "email the list", asks: sends},
		{query: "weather in Paris", asks: noVerb},

		{query: "list files without deleting them", kept: "list files \n", asks: reads, negated: []verb{deletes}},
		{query: "Without deleting anything, list files", kept: "\n, list files", asks: reads, negated: []verb{deletes}},
		{query: "do not send mail. List drafts", kept: "do \n. List drafts", asks: reads, negated: []verb{sends}},
		{query: "don't delete the file, list it", kept: "\n, list it", asks: reads, negated: []verb{deletes}},
		{query: "don’t delete the file — list it", kept: "\n — list it", asks: reads, negated: []verb{deletes}},
		{query: "list files, never remove or change one", kept: "list files, \n", asks: reads, negated: []verb{changes, deletes}},
		{query: "list files but not delete report.pdf", kept: "list files but \n", asks: reads, negated: []verb{deletes}},
		{query: "list files (not to delete) by size", kept: "list files (\n) by size", asks: reads, negated: []verb{deletes}},
		{query: "files must not be deleted nor sent", kept: "files must \n", negated: []verb{deletes, sends}},
		{query: "I do not want anything deleted", kept: "I do \n", negated: []verb{deletes}},
		{query: "do not accidentally delete files but list them", kept: "do \n but list them", asks: reads, negated: []verb{deletes}},
		{query: "archive mail instead of deleting it", kept: "archive mail \n", asks: changes, negated: []verb{deletes}},
		{query: "rename a file rather than delete it", kept: "rename a file \n", asks: changes, negated: []verb{deletes}},
		{query: "list files without deleting, moving and sending them", kept: "list files \n", asks: reads, negated: []verb{changes, deletes, sends}},
		{query: "without deleting files and folders list them, then mail", kept: "\n, then mail", asks: sends, negated: []verb{deletes}},
		{query: "without deleting it and email me a list", kept: "\n and email me a list", asks: sends, negated: []verb{deletes}},
		{query: "list files without changes or deletions", kept: "list files \n", asks: reads, negated: []verb{changes, deletes}},
		{query: "never delete mail; never send mail; read mail", kept: "\n; \n; read mail", asks: reads, negated: []verb{deletes, sends}},
		{query: "do not get rid of the list", kept: "do \n", negated: []verb{deletes}},

		{query: "list files without reading them", asks: reads},
		{query: "send a mail without creating a draft", asks: sends},
		{query: "remove a fact without deleting its node", asks: deletes},
		{query: "remove a fact, not delete or send its node", asks: deletes, negated: []verb{sends}},
		{query: "I cannot delete a file", asks: deletes},
		{query: "my mail was not sent", asks: sends},
		{query: "read mail, do not reply", kept: "read mail, do \n", asks: reads, negated: []verb{sends}},
		{query: "variables that are not set", asks: changes},
		{query: "there are no changes"},
		{query: "not only delete but also list", asks: deletes},
		{query: "don't forget to send the report", asks: sends},
		{query: "list users who never logged in", asks: reads},
		{query: "do not, delete", asks: deletes},
		{query: "without"},
		{query: "not not delete", kept: "not \n", negated: []verb{deletes}},
	} {
		in := intentOf(c.query)
		var ruled []verb
		for v, is := range in.negated {
			if is {
				ruled = append(ruled, verb(v))
			}
		}
		if kept := in.withoutNegated(c.query); kept != cmp.Or(c.kept, c.query) || in.asks != c.asks || !slices.Equal(ruled, c.negated) {
			t.Errorf("%q: asks for %d, rules out %d, leaves %q; want %d, %d, %q", c.query, in.asks, ruled, kept, c.asks, c.negated, c.kept)
		}
	}
}
