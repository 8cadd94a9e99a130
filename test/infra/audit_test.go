package infra

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const auditTemplate = "infra/audit.yaml"

// column returns the Athena type of a Go type.
func column(t *testing.T, of reflect.Type) string {
	t.Helper()
	switch of {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[json.RawMessage]():
		return "string"
	}
	switch of.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "bigint"
	case reflect.Float64:
		return "double"
	case reflect.Pointer:
		return column(t, of.Elem())
	case reflect.Slice:
		return "array<" + column(t, of.Elem()) + ">"
	case reflect.Map:
		return "map<" + column(t, of.Key()) + "," + column(t, of.Elem()) + ">"
	case reflect.Struct:
		return "struct<" + strings.Join(columns(t, of, ":"), ",") + ">"
	}
	t.Fatalf("Athena has no type for a %s", of)
	return ""
}

// columns returns the name and the Athena type of each JSON member of a struct.
func columns(t *testing.T, of reflect.Type, between string) []string {
	t.Helper()
	var out []string
	for f := range of.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			out = append(out, name+between+column(t, f.Type))
		}
	}
	return out
}

// The table has all members of an audit line, in their order. It matches names case-sensitively,
// because a log line also contains metrics.
func TestAuditTable(t *testing.T) {
	table := nested(t, auditTemplate).Resources["Table"].Properties["TableInput"].(map[string]any)
	storage := table["StorageDescriptor"].(map[string]any)
	var got []string
	for _, c := range storage["Columns"].([]any) {
		c := c.(map[string]any)
		got = append(got, fmt.Sprintf("%s %s", c["Name"], c["Type"]))
	}
	want := columns(t, reflect.TypeFor[audit.Line](), " ")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("columns (-audit.Line +table):\n%s", d)
	}
	if names := strings.Join(got, " "); names != strings.ToLower(names) {
		t.Errorf("Athena does not allow names with capitals: %s", names)
	}
	serde := storage["SerdeInfo"].(map[string]any)["Parameters"].(map[string]any)
	if serde["case.insensitive"] != "FALSE" || serde["mapping.time"] != "timestamp" || serde["ignore.malformed.json"] != "TRUE" {
		t.Errorf("the table's settings for reading lines are %v", serde)
	}
}

// TestAuditTemplate compares the rights, the filters and the storage of the template with a golden
// file.
func TestAuditTemplate(t *testing.T) {
	x := nested(t, auditTemplate)
	var b strings.Builder
	for _, name := range x.of("AWS::IAM::Role") {
		fmt.Fprintf(&b, "role %s, for %s\n", name, principal(x.Resources[name]))
		for _, s := range statements(x.Resources[name]) {
			fmt.Fprintf(&b, "  %s\n", s)
			if strings.Contains(s.actions, "*") || s.resources == "*" {
				t.Errorf("%s: %s", name, s)
			}
		}
	}
	for _, name := range x.of("AWS::Logs::SubscriptionFilter") {
		p := x.Resources[name].Properties
		fmt.Fprintf(&b, "filter %s: %s of %s to %s as %s\n", name, p["FilterPattern"], text(p["LogGroupName"]), text(p["DestinationArn"]), text(p["RoleArn"]))
	}
	for _, name := range []string{"Bucket", "Stream", "WorkGroup"} {
		r := x.Resources[name]
		data, err := json.MarshalIndent(r.Properties, "", "  ")
		require.OK(t, err)
		fmt.Fprintf(&b, "%s: %s\n", name, data)
	}
	golden.Check(t, "testdata/audit.txt", b.String())
	if kept := x.Resources["Bucket"]; kept.DeletionPolicy != "Retain" || kept.UpdateReplacePolicy != "Retain" {
		t.Error("CloudFormation deletes the bucket with the stack")
	}
}

// readEnvelope reads a golden envelope.
func readEnvelope(t *testing.T, name string) lambdatest.Envelope {
	t.Helper()
	data, err := os.ReadFile("testdata/envelope/" + name)
	require.OK(t, err)
	return require.JSON[lambdatest.Envelope](t, string(data))
}

// The lines of calls and audit events that CloudWatch Logs sends become audit lines.
func TestEnvelope(t *testing.T) {
	e := readEnvelope(t, "data.json")
	record, err := e.Record()
	require.OK(t, err)
	out, err := lambdatest.Unpack(record)
	require.OK(t, err)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(e.LogEvents) || len(lines) < 2 {
		t.Fatalf("%d events became %d lines:\n%s", len(e.LogEvents), len(lines), out)
	}
	kinds := map[string]int{}
	for _, line := range lines {
		l, err := lambdatest.Row([]byte(line))
		require.OK(t, err)
		kinds[l.Kind]++
		if l.V != audit.Version || l.Time.IsZero() || l.Kind == audit.KindCall && l.Decision == "" || l.Kind == audit.KindEvent && (l.Actor == "" || l.Action == "") {
			t.Errorf("not an audit line: %s", line)
		}
		if again := lambdatest.Subscribed(line); len(again.LogEvents) != 1 {
			t.Errorf("the filter does not match the line: %s", line)
		}
	}
	if kinds[audit.KindCall] == 0 || kinds[audit.KindEvent] == 0 {
		t.Errorf("lines by kind are %v", kinds)
	}
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(data)
	require.OK(t, err)
	require.OK(t, z.Close())
	return out.Bytes()
}

// queries returns the saved queries by the name of their resource.
func queries(t *testing.T) map[string]string {
	t.Helper()
	x := nested(t, auditTemplate)
	out := map[string]string{}
	for _, name := range x.of("AWS::Athena::NamedQuery") {
		out[name] = x.Resources[name].Properties["QueryString"].(string)
	}
	if want := []string{"DeedsOfDay", "DeniedCalls", "WhoCalledWhat"}; !slices.Equal(slices.Sorted(maps.Keys(out)), want) {
		t.Fatalf("saved queries: %v", slices.Sorted(maps.Keys(out)))
	}
	return out
}
