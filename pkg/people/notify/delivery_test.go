package notify_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A test message goes to one target, which need not want any event, and is marked as a test. The
// target then has the delivery, with the reason if it failed, and without its address.
func TestTestMessage(t *testing.T) {
	room, hook := newStub(t), newStub(t)
	o := newOffice(t, slack(room.URL+"/hooks/s3cret", "new"), webhook("${env:HOOK}"),
		config.Notify{Type: "sns", Topic: "arn:aws:sns:eu-west-1:123456789012:people"})
	o.secrets["env:HOOK"] = hook.URL
	all := o.sender.Targets()
	places := []string{strings.TrimPrefix(room.URL, "http://"), "${env:HOOK}", "topic people"}
	for i, target := range all {
		if target.Where() != places[i] || target.Last != nil ||
			strings.Contains(target.Key, "s3cret") {
			t.Errorf("target %d: %+v, want %s", i, target, places[i])
		}
	}
	got, err := o.sender.Test(t.Context(), all[0].Key, "ann")
	require.OK(t, err)
	if m := room.messages(); got.Last.Failure != "" || len(m) != 1 || len(hook.messages()) > 0 ||
		!strings.Contains(m[0].body, "a test message that `ann` sent. Nothing waits for you.") {
		t.Errorf("%+v, %+v", got, m)
	}
	hook.says(status(500))
	got, err = o.sender.Test(t.Context(), all[1].Key, "ann")
	require.OK(t, err)
	m := hook.messages()
	if got.Last.Failure != "it answers 500" || len(m) != 1 ||
		!strings.Contains(m[0].body, `{"type":"test",`) {
		t.Errorf("%+v, %+v", got, m)
	}
	o.targets[1].URL = secret.New("http://127.0.0.1:1/hooks")
	if last := o.sender.Targets()[1].Last; last != nil {
		t.Errorf("another address has the delivery %+v", last)
	}
	if _, err := o.sender.Test(t.Context(), all[1].Key, "ann"); !errors.Is(
		err,
		notify.ErrNoTarget,
	) {
		t.Errorf("a target that is gone: %v", err)
	}
	o.put(t, event(1))
	o.send(t)
	last := o.sender.Targets()
	if last[0].Last.Kind != notify.Test || last[1].Last.Kind != event(1).Kind ||
		last[1].Last.Failure != "it cannot be reached" {
		t.Errorf("after an event: %+v, %+v", last[0].Last, last[1].Last)
	}
	o.checkLog(t)
}
