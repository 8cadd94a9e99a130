package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// alias is the qualifier of the version in use.
const alias = ":live"

// request is the event of GET /healthz from API Gateway and a Function URL.
const request = `{"version":"2.0","rawPath":"/healthz","headers":{"host":"new.invalid"},"isBase64Encoded":false,` +
	`"requestContext":{"requestId":"hook","domainName":"new.invalid","http":{"method":"GET","path":"/healthz","sourceIp":"127.0.0.1"}}}`

// An event is CodeDeploy's event; the answer contains both ids.
type event struct {
	Deployment string `json:"DeploymentId"`
	Execution  string `json:"LifecycleEventHookExecutionId"`
}

// A hook answers CodeDeploy.
type hook struct {
	lambda  *lambda.Client
	deploy  *codedeploy.Client
	log     *slog.Logger
	version string // ARN of the new version, with its number at the end
}

// answer checks the new version, and sends CodeDeploy the verdict. Without a verdict CodeDeploy
// waits for an hour, and then restores the old version.
func (h hook) answer(ctx context.Context, e event) error {
	verdict := types.LifecycleEventStatusSucceeded
	err := h.check(ctx)
	if err != nil {
		h.log.LogAttrs(ctx, slog.LevelError, "new version refused", slog.String("version", h.version),
			slog.Any("error", err))
		verdict = types.LifecycleEventStatusFailed
	}
	_, err = h.deploy.PutLifecycleEventHookExecutionStatus(ctx, &codedeploy.PutLifecycleEventHookExecutionStatusInput{
		DeploymentId: &e.Deployment, LifecycleEventHookExecutionId: &e.Execution, Status: verdict,
	})
	if err != nil {
		return fmt.Errorf("tell CodeDeploy %s: %w", verdict, err)
	}
	h.log.LogAttrs(ctx, slog.LevelInfo, "new version checked",
		slog.String("verdict", string(verdict)))
	return nil
}

// check returns why the new version must not be used: it does not start, or it answers like a
// broken gateway although the version in use works. If both versions are broken, for example
// without a config, check accepts the new version, which may contain the fix.
func (h hook) check(ctx context.Context) error {
	status, err := h.ask(ctx, h.version)
	if err != nil {
		return err
	}
	if status < 500 {
		return nil
	}
	if old, err := h.ask(ctx, h.version[:strings.LastIndex(h.version, ":")]+alias); err != nil || old >= 500 {
		return nil //nolint:nilerr // the version in use is broken too; see the comment above
	}
	return fmt.Errorf("it answers GET /healthz with %d, and the version in use works: "+
		"the log of that version of mcp has the reason. If it cannot read the stored catalog: "+
		"after a return, delete the catalog file of the newer release (docs/operate.md); "+
		"after skipped releases, deploy a release between the two first", status)
}

// ask returns the status of a function's answer to GET /healthz.
func (h hook) ask(ctx context.Context, arn string) (int, error) {
	out, err := h.lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &arn, Payload: []byte(request)})
	if err != nil {
		return 0, fmt.Errorf("invoke: %w", err)
	}
	if out.FunctionError != nil {
		return 0, fmt.Errorf("it did not start, or ended with an error: %s: %s",
			*out.FunctionError, out.Payload)
	}
	var answer struct{ StatusCode int }
	// This is the prelude of a streamed answer; the body follows.
	if err := json.NewDecoder(bytes.NewReader(out.Payload)).Decode(&answer); err != nil || answer.StatusCode == 0 {
		return 0, fmt.Errorf("its answer is not HTTP: %.200s", out.Payload)
	}
	return answer.StatusCode, nil
}
