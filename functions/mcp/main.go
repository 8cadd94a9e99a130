// Command mcp is the Lambda function behind /mcp: what agents call.
package main

import "github.com/portcullis-mcp/portcullis/internal/boot"

func main() {
	boot.Main("mcp", (*boot.Function).Agents)
}
