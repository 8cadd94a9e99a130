// Command mcp is the Lambda function behind /mcp, which agents call.
package main

import (
	bootaws "github.com/portcullis-mcp/portcullis/internal/boot/aws"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

func main() {
	bootaws.Main("mcp", s3.OpenReader, (*bootaws.Function).Agents)
}
