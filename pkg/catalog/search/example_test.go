package search_test

import (
	"fmt"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func Example() {
	// At sync: an index of the tools, in the order of their ids, is stored.
	stored := search.Build(slices.Values([]search.Doc{
		{Server: "fs", Name: "delete_path", Description: "Delete a file or an empty directory."},
		{Server: "fs", Name: "read_file", Description: "Return the contents of a file."},
		{Server: "mail", Name: "send_message", Description: "Send an email."},
	}))

	// At a request: the index is opened in place, and ranks tools that the agent may see.
	ix, err := search.Open(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	query := ix.Query("remove a document")
	callable, locked := tool.NewSet(ix.Len()), tool.NewSet(ix.Len())
	locked.Add(0)
	callable.Add(1)
	callable.Add(2)
	fmt.Println("callable:", ix.Rank(query, callable, 10, search.Options{}).Total)
	for _, hit := range ix.Rank(query, locked, 10, search.Options{}).Hits {
		fmt.Printf("locked: document %d, lexical %.2f, semantic %.2f\n", hit.Doc, hit.Lexical, hit.Semantic)
	}
	// Output:
	// callable: 0
	// locked: document 0, lexical 0.00, semantic 0.18
}
