package infra

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An auditStack is a stack of infra/audit.yaml on an emulator.
type auditStack struct {
	t        *testing.T
	endpoint string
	outputs  map[string]string
}

func newAuditStack(t *testing.T, parameters map[string]string) auditStack {
	t.Helper()
	s := auditStack{t: t, endpoint: emulator.Start(t)}
	for _, name := range []string{"Mcp", "Admin", "Sync"} {
		group := strings.ToLower(name) + "-logs"
		s.ask("logs", "Logs_20140328.CreateLogGroup", map[string]any{"logGroupName": group}, nil)
		parameters[name+"LogGroupName"] = group
	}
	s.outputs = emulator.Deploy(t, s.endpoint, "audit", repo.Path(auditTemplate), parameters)
	return s
}

// ask calls a service for which the module has no client.
func (s auditStack) ask(service, target string, in, out any) {
	s.t.Helper()
	body, err := json.Marshal(in)
	require.OK(s.t, err)
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.endpoint, strings.NewReader(string(body)))
	require.OK(s.t, err)
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20261122/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := http.DefaultClient.Do(r)
	require.OK(s.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %s (%v)", target, answer.StatusCode, data, err)
	}
	if out != nil {
		require.OK(s.t, json.Unmarshal(data, out))
	}
}

// timeColumn matches the only column that the emulator reads differently from Athena. The emulator
// ignores the mapping of names and guesses types from the data, so it reads RFC 3339 as a time.
var timeColumn = regexp.MustCompile(`\btime\b`)

// query runs a query and returns its header and its rows, with " | " between columns. Athena stores
// results in the location of the stack's workgroup. The emulator has no such default, so query
// passes a location.
func (s auditStack) query(sql string) []string {
	s.t.Helper()
	var started, done struct {
		QueryExecutionId string
		QueryExecution   struct {
			Status struct{ State, StateChangeReason string }
		}
	}
	s.ask("athena", "AmazonAthena.StartQueryExecution", map[string]any{
		"QueryString":           timeColumn.ReplaceAllString(sql, "CAST(timestamp AS varchar)"),
		"QueryExecutionContext": map[string]any{"Database": s.outputs["DatabaseName"]},
		"ResultConfiguration":   map[string]any{"OutputLocation": "s3://" + s.outputs["BucketName"] + "/results/"},
	}, &started)
	local.Until(s.t, "the query ends", func() bool {
		s.ask("athena", "AmazonAthena.GetQueryExecution", started, &done)
		return done.QueryExecution.Status.State != "QUEUED" && done.QueryExecution.Status.State != "RUNNING"
	})
	if done.QueryExecution.Status.State != "SUCCEEDED" {
		s.t.Fatalf("%s\n%+v", sql, done.QueryExecution.Status)
	}
	var found struct {
		ResultSet struct {
			Rows []struct {
				Data []struct{ VarCharValue string }
			}
		}
	}
	s.ask("athena", "AmazonAthena.GetQueryResults", started, &found)
	var rows []string
	for _, r := range found.ResultSet.Rows {
		var cells []string
		for _, c := range r.Data {
			cells = append(cells, c.VarCharValue)
		}
		rows = append(rows, strings.Join(cells, " | "))
	}
	return rows
}

// TestAuditStack deploys the template and stores lines in the place where Firehose would store
// them. The saved queries must find the lines through the table.
func TestAuditStack(t *testing.T) {
	s := newAuditStack(t, map[string]string{"SavedQueries": "false", "KeepDays": "400", "LockMode": "GOVERNANCE"})
	for _, group := range []string{"mcp-logs", "admin-logs", "sync-logs"} {
		var got struct {
			SubscriptionFilters []struct{ FilterPattern, DestinationArn string }
		}
		s.ask("logs", "Logs_20140328.DescribeSubscriptionFilters", map[string]any{"logGroupName": group}, &got)
		if f := got.SubscriptionFilters; len(f) != 1 || f[0].FilterPattern != "{ $.audit = 1 }" || !strings.Contains(f[0].DestinationArn, ":deliverystream/") {
			t.Errorf("the filters of %s are %+v", group, f)
		}
	}
	if want := "s3://" + s.outputs["BucketName"] + "/audit/, Athena table portcullis_audit"; s.outputs["Store"] != want {
		t.Errorf("output Store = %q, want %q", s.outputs["Store"], want)
	}

	e := readEnvelope(t, "data.json")
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	for i := range e.LogEvents {
		e.LogEvents[i].Message = strings.ReplaceAll(e.LogEvents[i].Message, "2026-11-22", yesterday)
	}
	record, err := e.Record()
	require.OK(t, err)
	lines, err := lambdatest.Unpack(record)
	require.OK(t, err)
	_, err = emulator.S3(s.endpoint).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(s.outputs["BucketName"]), Key: aws.String("audit/day=" + yesterday + "/stream-1.gz"), Body: strings.NewReader(string(zipped(t, lines))),
	})
	require.OK(t, err)
	if got := s.query("SELECT DISTINCT day FROM portcullis_audit"); len(got) != 2 || got[1] != yesterday {
		t.Errorf("the table has the days %q", got)
	}
	for name, want := range map[string][]string{
		"WhoCalledWhat": {"agent | human | tool | decision | calls | last", "token:ci | kim@example.com | github:delete_repo | locked | 1 | " + yesterday},
		"DeniedCalls":   {"tool | decision | status | rules | calls | agents | last", "github:delete_repo | locked | disabled_by_config | "},
		"DeedsOfDay":    {" | actor | action | tool | subject | from | hash | note | source", "| ann | approve | github:create_issue |", "| ann | stop |  | server:github |"},
	} {
		got := s.query(queries(t)[name])
		for _, w := range want {
			if !strings.Contains(strings.Join(got, "\n"), w) {
				t.Errorf("%s finds\n%s\nwithout %q", name, strings.Join(got, "\n"), w)
			}
		}
		if n := map[string]int{"WhoCalledWhat": 3, "DeniedCalls": 1, "DeedsOfDay": 2}[name]; len(got) != n+1 {
			t.Errorf("%s finds %d rows, want %d:\n%s", name, len(got)-1, n, strings.Join(got, "\n"))
		}
	}
}
