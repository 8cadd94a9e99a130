package toolset_test

import (
	"fmt"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

func ExampleBound_Select() {
	universe := toolset.Universe{
		Servers: []toolset.Server{{Name: "github", Loaded: true}, {Name: "jira", Loaded: true}},
		Tools: []toolset.Tool{
			{ID: tool.ID{Server: "github", Name: "create_issue"}},
			{ID: tool.ID{Server: "github", Name: "search_code"}, ReadOnly: true},
			{ID: tool.ID{Server: "jira", Name: "search"}, ReadOnly: true},
		},
	}
	bound := toolset.Compile(&config.Config{Tools: config.Tools{Toolsets: []string{"all"}}}, universe)
	agent := identity.Agent{ID: "ci", Servers: []string{"github"}}
	for _, header := range []http.Header{{}, {"X-Mcp-Readonly": {"true"}}, {"X-Mcp-Toolsets": {"jira"}}} {
		request, err := toolset.ParseRequest("", header)
		if err != nil {
			fmt.Println(err)
			return
		}
		selection, err := bound.Select(request, agent)
		if err != nil {
			fmt.Println(err)
			return
		}
		var offered []tool.ID
		for i, t := range universe.Tools {
			if selection.Tools.Has(i) {
				offered = append(offered, t.ID)
			}
		}
		fmt.Println(offered)
	}
	// Output:
	// [github:create_issue github:search_code]
	// [github:search_code]
	// Unknown toolset: jira. Toolsets that exist: all, default, github
}
