package policy_test

import (
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func ExamplePolicy_Verdicts() {
	cfg, err := config.Parse([]byte(`{"mcpServers": {"files": {"url": "https://files.example/mcp"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := policy.Parse([]byte(`
@id("no-deletes")
@reason("Deletes go through the platform team.")
@contact("platform@example.com")
forbid (principal, action, resource)
when { resource.name like "delete_*" }
unless { principal == Agent::"janitor" };`))
	if err != nil {
		fmt.Println(err)
		return
	}
	tools := []policy.Tool{{ID: tool.ID{Server: "files", Name: "delete_file"}}}
	for _, id := range []string{"dev", "janitor"} {
		v := p.Verdicts(cfg, identity.Agent{ID: id}, tools)[0]
		fmt.Printf("%s: denied %t: %q\n", id, v.Denied == lock.Yes, v.Denial.Note())
	}
	// Output:
	// dev: denied true: "Deletes go through the platform team. (rule no-deletes, contact platform@example.com)"
	// janitor: denied false: ""
}

func ExampleParse() {
	_, err := policy.Parse([]byte(`forbid (principal, action, resource)
when { resource.teir == "destructive" };

forbid (principal == User::"alice", action, resource);`))
	fmt.Println(err)
	// Output:
	// 2:17: not what the schema says: attribute `teir` on entity type `Tool` not found
	// 4:22: not what the schema says: unrecognized entity type `User`
}
