package apigw_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
)

func Example() {
	a := apigw.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s, Mcp-Name %s", r.Method, r.URL.Path, r.Header.Get("Mcp-Name"))
	}), nil)
	// A function's main passes it to the runtime: lambda.Start(a).
	answer, err := a.Invoke(context.Background(), []byte(`{
		"version": "2.0", "rawPath": "/mcp", "headers": {"mcp-name": "res://a,b"},
		"requestContext": {"stage": "$default", "http": {"method": "POST"}}
	}`))
	fmt.Println(string(answer), err)
	// Output:
	// {"statusCode":200,"headers":{"Content-Type":"text/plain; charset=utf-8"},"multiValueHeaders":null,"body":"POST /mcp, Mcp-Name res://a,b","cookies":[]}
	//  <nil>
}
