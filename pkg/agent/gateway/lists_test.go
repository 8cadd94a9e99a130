package gateway_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// The version of the list of tools changes if, and only if, the answer of tools/list changes.
func TestLists(t *testing.T) {
	for _, direct := range []bool{false, true} {
		gw := newFixture(t)
		srv := gw.Serve("fs", gatewaytest.Tool("read", "Read a file.", gatewaytest.ReadOnly), gatewaytest.Tool("write", "Write a file.", ""))
		mode := `"gateway":{"mode":"search"}`
		if direct {
			mode = directMode
		}
		gw.load(nil, mode)
		last := gw.Open().Lists(gateway.Lists{})
		if last.Tools == "" {
			t.Error("the list has no version")
		}
		step := func(what string, changes bool, do func()) {
			t.Helper()
			do()
			gw.Clock.Wait(time.Minute)
			now := gw.Open().Lists(last)
			if changed := now.Tools != last.Tools; changed != (changes && direct) {
				t.Errorf("direct mode %v, %s: the version changed = %v, want the opposite", direct, what, changed)
			}
			last = now
		}
		step("nothing", false, func() {})
		step("a sync without changes", false, func() { gw.Sync() })
		step("a tool is disabled", true, func() { gw.Decide("fs:read", "disable") })
		step("a tool is enabled", true, func() { gw.Decide("fs:read", "enable") })
		step("annotations of the operator", true, func() {
			gw.Configure(map[string]string{"fs": `"annotations":{"write":{"readOnlyHint":true}}`}, mode)
		})
		step("a new tool waits", false, func() {
			srv.Tools = append(srv.Tools, gatewaytest.Tool("other", "Another.", ""))
			gw.load(map[string]string{"fs": `"approval":"manual","annotations":{"write":{"readOnlyHint":true}}`}, mode)
		})
		step("the new tool is approved", true, func() { gw.Decide("fs:other", "approve") })
		step("a rule denies the new tool", true, func() { gw.Forbid(`forbid (principal, action, resource == Tool::"fs:other");`) })
	}
}
