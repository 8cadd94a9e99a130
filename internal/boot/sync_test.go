package boot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSyncEvents(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          SyncEvent
		wanted        bool
	}{
		{"nothing", ``, SyncEvent{"invoke", ""}, true},
		{"null", `null`, SyncEvent{"invoke", ""}, true},
		{"somebody's own", `{"why":"now"}`, SyncEvent{"invoke", ""}, true},
		{"somebody's own list", `[1]`, SyncEvent{"invoke", ""}, true},
		{"a key of another type", `{"source":7}`, SyncEvent{"invoke", ""}, true},
		{"schedule", `{"source":"aws.events"}`, SyncEvent{"schedule", ""}, true},
		{"EventBridge Scheduler", `{"source":"aws.scheduler"}`, SyncEvent{"schedule", ""}, true},
		{"admin", `{"source":"portcullis.admin"}`, SyncEvent{"admin", ""}, true},
		{"config by EventBridge", `{"source":"aws.s3","detail":{"object":{"key":"config/policy.cedar"}}}`, SyncEvent{"config", "config/policy.cedar"}, true},
		{"a deletion by EventBridge", `{"source":"aws.s3","detail-type":"Object Deleted","detail":{"object":{"key":"config/policy.cedar"},"deletion-type":"Delete Marker Created"}}`, SyncEvent{"config", "config/policy.cedar"}, true},
		{"catalog by EventBridge", `{"source":"aws.s3","detail":{"object":{"key":"catalog/current.json"}}}`, SyncEvent{"config", "catalog/current.json"}, false},
		{"config by notification", `{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"config%2Fmcp_config.json"}}}]}`, SyncEvent{"config", "config/mcp_config.json"}, true},
		{"one of two", `{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"catalog/a"}}},{"eventSource":"aws:s3","s3":{"object":{"key":"config/a"}}}]}`, SyncEvent{"config", "config/a"}, true},
		{"trial of a notification", `{"Service":"Amazon S3","Event":"s3:TestEvent"}`, SyncEvent{"config", ""}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseSyncEvent([]byte(c.payload))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || got.Wanted() != c.wanted {
				t.Errorf("wanted %t, event (-want +got):\n%s", got.Wanted(), diff)
			}
		})
	}
	for _, bad := range []string{`{`, `{"Records":[{"eventSource":"aws:s3","s3":{"object":{"key":"%zz"}}}]}`} {
		if got, err := ParseSyncEvent([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
}

// Any bytes are an event or an error; only JSON is an event.
func FuzzParseSyncEvent(f *testing.F) {
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
		e, err := ParseSyncEvent(payload)
		if err == nil && e.Trigger == "" {
			t.Errorf("%q has no trigger", payload)
		}
		if err == nil && e.Trigger != "config" && !e.Wanted() {
			t.Errorf("%q: only an event of an object can ask for nothing", payload)
		}
	})
}
