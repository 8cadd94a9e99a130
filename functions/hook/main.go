// Command hook is the Lambda function that CodeDeploy calls before agents call a new version of the
// function behind /mcp. It sends one request to the version, and reports whether the version may be
// used.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	runtime "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	c, err := config.LoadDefaultConfig(context.Background())
	version := os.Getenv("PORTCULLIS_NEW_VERSION")
	if err == nil && version == "" {
		err = errors.New("PORTCULLIS_NEW_VERSION is not set: the ARN of the version to ask")
	}
	if err != nil {
		log.LogAttrs(context.Background(), slog.LevelError, "hook does not start", slog.Any("error", err))
		os.Exit(1)
	}
	runtime.Start(hook{lambda.NewFromConfig(c), codedeploy.NewFromConfig(c), log, version}.answer)
}
