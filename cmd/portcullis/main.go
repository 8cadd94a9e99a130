// Command portcullis is the operator's program: it serves the gateway, and checks and deploys its
// config.
//
// It serves the whole gateway on one port without AWS. It also checks a folder's config and policy,
// and writes them to the bucket of a deployed gateway.
package main

import (
	"os"

	"github.com/portcullis-mcp/portcullis/internal/cli"
)

func main() { os.Exit(cli.Main()) }
