// Command mcp is the Lambda function behind /mcp: what agents call.
package main

import "github.com/portcullis-mcp/portcullis/internal/boot"

func main() {
	boot.Main("mcp", func(f *boot.Function) (boot.Handler, error) {
		h, err := f.Public()
		if err != nil {
			return nil, err
		}
		return f.HTTP(h), nil
	})
}
