package mcphttp

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A client that reads slowly still gets each progress event, up to the burst. Of more events, it
// gets the first ones and the newest.
func TestProgressOfASlowReader(t *testing.T) {
	for events, want := range map[int]int{3: 3, progressBurst: progressBurst, 1000: progressBurst} {
		q := &queue{token: json.RawMessage("7")}
		for n := 1; n <= events; n++ {
			q.add(
				mcp.NotificationProgress,
				rawjson.Object{{Name: "progress", Value: json.RawMessage(strconv.Itoa(n))}},
			)
		}
		var got []string
		for message, _ := q.next(time.Now(), false); message != nil; message, _ = q.next(time.Now(), false) {
			got = append(got, string(message))
		}
		if newest := `"progress":` + strconv.Itoa(events) + "}"; len(got) != want ||
			!strings.Contains(got[len(got)-1], newest) ||
			!strings.Contains(got[0], `"progress":1}`) {
			t.Errorf(
				"of %d events the client gets %d, the last is %s; want %d",
				events,
				len(got),
				got[len(got)-1],
				want,
			)
		}
	}
}
