package bootadmin_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt/bolttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The gateway reads the signer from the fields that API Gateway adds to the event, and never from
// headers with the same names.
func TestSignerOfAnEvent(t *testing.T) {
	const arn = "arn:aws:sts::123456789012:assumed-role/ci/run"
	s, err := boot.Load(func(name string) string {
		return map[string]string{
			"PORTCULLIS_AUTH": "iam", "PORTCULLIS_IAM_SERVERS": "files", "PORTCULLIS_IAM_ADMINS": "arn:aws:sts::123456789012:assumed-role/admin/*",
		}[name]
	})
	require.OK(t, err)
	folder := t.TempDir()
	approvals := bolttest.Open(t, folder)
	p := boot.New(s, boot.Stores{Objects: dir.New(folder), Approvals: approvals, Tokens: token.NewStore(approvals)}, boot.Options{})
	handler, err := bootadmin.Everything(p, bootadmin.Browsers{})
	require.OK(t, err)
	gate := apigw.New(handler, nil)
	status := func(path, signer string, headers map[string]string) int {
		headers["content-type"] = "application/json"
		request := map[string]any{"http": map[string]any{"method": http.MethodPost, "path": path, "sourceIp": "203.0.113.7"}, "stage": "$default"}
		if signer != "" {
			request["authorizer"] = map[string]any{"iam": map[string]any{"userArn": signer}}
		}
		event, err := json.Marshal(map[string]any{
			"version": "2.0", "rawPath": path, "headers": headers, "requestContext": request, "body": `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		})
		require.OK(t, err)
		out, err := gate.Invoke(t.Context(), event)
		require.OK(t, err)
		var answer struct{ StatusCode int }
		require.OK(t, json.Unmarshal(out, &answer))
		return answer.StatusCode
	}
	signature := func() map[string]string {
		return map[string]string{"authorization": "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=y"}
	}
	forged := func() map[string]string {
		return map[string]string{
			"x-amzn-user-arn": arn, "x-amzn-apigateway-event": `{"requestContext":{"authorizer":{"iam":{"userArn":"` + arn + `"}}}}`,
			"x-golambdaproxy-apigw-context": `{"authorizer":{"iam":{"userArn":"` + arn + `"}}}`, "x-amzn-request-context": `{"authorizer":{"iam":{"userArn":"` + arn + `"}}}`,
		}
	}
	for _, tt := range []struct {
		name, path, signer string
		headers            map[string]string
		want               int
	}{
		{"verified", "/mcp", arn, signature(), http.StatusOK},
		{"a signature that nobody verified", "/mcp", "", signature(), http.StatusUnauthorized},
		{"nothing", "/mcp", "", map[string]string{}, http.StatusUnauthorized},
		{"forged headers that name a signer", "/mcp", "", forged(), http.StatusUnauthorized},
		{"verified, with a bad bearer credential", "/mcp", arn, map[string]string{"authorization": "Bearer a.b.c"}, http.StatusUnauthorized},
		{"verified, but no admin", "/admin/sync", arn, signature(), http.StatusForbidden},
	} {
		if got := status(tt.path, tt.signer, tt.headers); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
