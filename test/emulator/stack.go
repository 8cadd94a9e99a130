package emulator

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Deploy creates a CloudFormation stack from the template file and returns its outputs. So tests of
// drivers use the resources that infra/ deploys, not copies of them. The stack exists until the
// emulator ends.
func Deploy(t testing.TB, endpoint, stack, template string, parameters map[string]string) map[string]string {
	t.Helper()
	body, err := os.ReadFile(template)
	require.OK(t, err)
	if err := Create(t, endpoint, stack, string(body), parameters); err != nil {
		t.Fatalf("deploy %s: %v", template, err)
	}
	outputs := map[string]string{}
	local.Until(t, "the stack "+stack+" is made", func() bool {
		s, err := cloudFormation(t, endpoint, url.Values{"Action": {"DescribeStacks"}, "StackName": {stack}})
		if err != nil || s.Status != "CREATE_COMPLETE" && s.Status != "CREATE_IN_PROGRESS" {
			t.Fatalf("deploy %s: %v: %s: %s", template, err, s.Status, s.Reason)
		}
		for _, o := range s.Outputs {
			outputs[o.Key] = o.Value
		}
		return s.Status == "CREATE_COMPLETE"
	})
	return outputs
}

// Create starts to create a CloudFormation stack from a template. It returns CloudFormation's error
// if CloudFormation refuses the template or the parameters.
func Create(t testing.TB, endpoint, stack, template string, parameters map[string]string) error {
	return send(t, endpoint, "CreateStack", stack, template, parameters)
}

// send makes CloudFormation create or update a stack.
func send(
	t testing.TB, endpoint, action, stack, template string, parameters map[string]string,
) error {
	form := url.Values{"Action": {action}, "StackName": {stack}, "TemplateBody": {template}}
	n := 0
	for key, value := range parameters {
		n++
		form.Set(fmt.Sprintf("Parameters.member.%d.ParameterKey", n), key)
		form.Set(fmt.Sprintf("Parameters.member.%d.ParameterValue", n), value)
	}
	_, err := cloudFormation(t, endpoint, form)
	return err
}

// Update updates a CloudFormation stack that Deploy made, and waits for the end.
func Update(t testing.TB, endpoint, stack, template string, parameters map[string]string) {
	t.Helper()
	body, err := os.ReadFile(template)
	require.OK(t, err)
	if err := send(t, endpoint, "UpdateStack", stack, string(body), parameters); err != nil {
		t.Fatalf("update %s: %v", stack, err)
	}
	describe := url.Values{"Action": {"DescribeStacks"}, "StackName": {stack}}
	local.Until(t, "the stack "+stack+" is updated", func() bool {
		s, err := cloudFormation(t, endpoint, describe)
		if err != nil || strings.Contains(s.Status, "ROLLBACK") || strings.Contains(s.Status, "FAILED") {
			t.Fatalf("update %s: %v: %s: %s", stack, err, s.Status, s.Reason)
		}
		return s.Status == "UPDATE_COMPLETE"
	})
}

// A stackState is the part of CloudFormation's answer that Deploy reads.
type stackState struct {
	Status  string `xml:"DescribeStacksResult>Stacks>member>StackStatus"`
	Reason  string `xml:"DescribeStacksResult>Stacks>member>StackStatusReason"`
	Outputs []struct {
		Key   string `xml:"OutputKey"`
		Value string `xml:"OutputValue"`
	} `xml:"DescribeStacksResult>Stacks>member>Outputs>member"`
}

// cloudFormation makes one call. Emulators do not check the signature, but read the name of the
// service from it.
func cloudFormation(t testing.TB, endpoint string, form url.Values) (s stackState, err error) {
	form.Set("Version", "2010-05-15")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/", strings.NewReader(form.Encode()))
	if err != nil {
		return s, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/cloudformation/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return s, err
	}
	if answer.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s: %s", answer.Status, data)
	}
	return s, xml.Unmarshal(data, &s)
}

// Destroy deletes a stack that Deploy made, and waits until it is gone.
func Destroy(t testing.TB, endpoint, stack string) {
	t.Helper()
	if _, err := cloudFormation(t, endpoint, url.Values{"Action": {"DeleteStack"}, "StackName": {stack}}); err != nil {
		t.Fatalf("delete stack %s: %v", stack, err)
	}
	local.Until(t, "the stack "+stack+" is gone", func() bool {
		s, err := cloudFormation(t, endpoint, url.Values{"Action": {"DescribeStacks"}, "StackName": {stack}})
		if err == nil && s.Status != "DELETE_COMPLETE" && s.Status != "DELETE_IN_PROGRESS" {
			t.Fatalf("delete stack %s: %s: %s", stack, s.Status, s.Reason)
		}
		return err != nil || s.Status == "DELETE_COMPLETE" // a stack that is gone cannot be described
	})
}
