// Command portcullis is the operator's program: it serves the whole gateway on one port without
// AWS, checks a folder's config and policy, and puts them into the bucket of a deployed gateway.
package main

import (
	"os"

	"github.com/portcullis-mcp/portcullis/internal/cli"
)

func main() { os.Exit(cli.Main()) }
