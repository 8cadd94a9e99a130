package config_test

import (
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

func ExampleParse() {
	_, err := config.Parse([]byte(`{
  "mcpServers": {
    "github": {"url": "https://mcp.example.com/github", "approvals": "manual"},
    "files": {"command": "npx", "args": "-y server-files"}
  }
}`))
	fmt.Println(err)
	// Output:
	// 3:57: mcpServers.github.approvals: unknown key
	// 4:41: mcpServers.files.args: want an array, found a string
}
