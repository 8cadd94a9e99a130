package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestParseEvent(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          event
		asksSync      bool
	}{
		{"nothing", ``, event{"invoke", ""}, true},
		{"null", `null`, event{"invoke", ""}, true},
		{"an object that a person wrote", `{"why":"now"}`, event{"invoke", ""}, true},
		{"a list that a person wrote", `[1]`, event{"invoke", ""}, true},
		{"a source that is a number", `{"source":7}`, event{"invoke", ""}, true},
		{"schedule", `{"source":"aws.events"}`, event{"schedule", ""}, true},
		{"EventBridge Scheduler", `{"source":"aws.scheduler"}`, event{"schedule", ""}, true},
		{"admin", `{"source":"portcullis.admin"}`, event{"admin", ""}, true},
		{"outbox", `{"source":"portcullis.outbox","id":"R-7KQ2M4XD"}`, event{"outbox", ""}, true},
		{"config by EventBridge", `{"source":"aws.s3","detail":{"object":{"key":"config/policy.cedar"}}}`, event{"config", "config/policy.cedar"}, true},
		{"a deletion by EventBridge", `{"source":"aws.s3","detail-type":"Object Deleted","detail":{"object":{"key":"config/policy.cedar"},"deletion-type":"Delete Marker Created"}}`, event{"config", "config/policy.cedar"}, true},
		{"catalog by EventBridge", `{"source":"aws.s3","detail":{"object":{"key":"catalog/current-2.json"}}}`, event{"config", "catalog/current-2.json"}, false},
		{"config by notification", `{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"config%2Fmcp_config.json"}}}]}`, event{"config", "config/mcp_config.json"}, true},
		{"one of two objects", `{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"catalog/a"}}},{"eventSource":"aws:s3","s3":{"object":{"key":"config/a"}}}]}`, event{"config", "config/a"}, true},
		{"S3's test of a notification", `{"Service":"Amazon S3","Event":"s3:TestEvent"}`, event{"config", ""}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseEvent([]byte(c.payload))
			require.OK(t, err)
			if got != c.want || got.asksSync() != c.asksSync {
				t.Errorf("event %+v, asksSync %t; want %+v, %t", got, got.asksSync(), c.want,
					c.asksSync)
			}
		})
	}
	for _, bad := range []string{`{`, `{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"%zz"}}}]}`} {
		if got, err := parseEvent([]byte(bad)); err == nil {
			t.Errorf("parseEvent(%s) = %+v, want an error", bad, got)
		}
	}
}

// For any bytes, parseEvent returns an error, or an event with a trigger. Only an event about an
// object in S3 may need no sync.
func FuzzParseEvent(f *testing.F) {
	files, err := filepath.Glob("../../events/*.json")
	if err != nil || len(files) < 4 {
		f.Fatal(len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		e, err := parseEvent(payload)
		if err == nil && e.trigger == "" {
			t.Errorf("%q has no trigger", payload)
		}
		if err == nil && e.trigger != "config" && !e.asksSync() {
			t.Errorf("%q does not request a sync, but is not an object event", payload)
		}
	})
}
