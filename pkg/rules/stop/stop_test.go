package stop_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A change without effect writes nothing. Change returns the error of an undo without a stop, and
// of a failed read.
func TestChange(t *testing.T) {
	down := errors.New("no answer")
	var docs documenttest.Store
	m := stop.NewStore(&docs)
	stoptest.Put(t, &docs, stoptest.Server("git"))
	add := func(s stop.Stops) (stop.Stops, error) { return s.Add(stoptest.Server("git")) }
	if held, err := m.Change(t.Context(), add); err != nil || held.Rev != 1 {
		t.Errorf("after a change without effect: rev %d, %v; want rev 1", held.Rev, err)
	}
	undo := func(s stop.Stops) (stop.Stops, error) { return s.Undo(stop.Target{Agent: "git"}) }
	if _, err := m.Change(t.Context(), undo); !errors.Is(err, stop.ErrNone) {
		t.Errorf("undo without a stop = %v, want ErrNone", err)
	}
	docs.OnDocs = func(context.Context, []document.Key) error { return down }
	if _, err := m.Change(t.Context(), add); !errors.Is(err, down) {
		t.Errorf("a change of an unreadable document = %v, want the error of the read", err)
	}
}

func TestMatch(t *testing.T) {
	one := stop.Stops{List: []stop.Stop{stoptest.Server("git"), stoptest.Agent("token:ci"), stoptest.Agent("*")}}
	for name, want := range map[string]bool{"git": true, "Git": false, "github": false, "token:ci": false, "*": false, "": false} {
		if _, got := one.Server(name); got != want {
			t.Errorf("server %q is stopped: %v", name, got)
		}
	}
	for id, want := range map[string]bool{"token:ci": true, "ci": false, "token:ci2": false, "git": false, "anybody": false, "": false} {
		if _, got := one.Agent(id); got != want {
			t.Errorf("agent %q is stopped: %v", id, got)
		}
	}
	all := stop.Stops{List: []stop.Stop{stoptest.All()}}
	if _, ok := all.Server("any"); !ok {
		t.Error("a server is not stopped although everything is")
	}
	if _, ok := all.Agent("any"); ok {
		t.Error("a stop of everything stops agents; agents must still find the stopped tools")
	}
	if both := all.And(one); len(both.List) != 4 || len(all.List) != 1 {
		t.Errorf("the union is %+v", both)
	}
	if _, ok := (stop.Stops{}).Server("git"); ok {
		t.Error("the zero Stops stop something")
	}
}

func TestTargetCheck(t *testing.T) {
	for name, bad := range map[string]stop.Target{
		"nothing": {}, "two": {Server: "a", Agent: "b"}, "all and one": {All: true, Server: "a"}, "a pattern": {Agent: "*"},
		"blank": {Server: " "}, "two lines": {Agent: "a\nb"}, "two paragraphs": {Agent: "a\u2029b"},
		"long": {Agent: strings.Repeat("a", 513)}, "not UTF-8": {Server: "a\xff"},
	} {
		if bad.Check() == nil {
			t.Errorf("%s is accepted: %+v", name, bad)
		}
	}
	for _, good := range []stop.Target{{All: true}, {Server: "git"}, {Agent: "token:*"}, {Agent: strings.Repeat("a", 512)}} {
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}

func TestCheckReason(t *testing.T) {
	for reason, ok := range map[string]bool{
		"key leaked": true, strings.Repeat("r", 256): true, strings.Repeat("r", 257): false, "": false, " \u00a0": false,
		"a\nb": false, "a\x00b": false, "a\xffb": false, "日本": true,
	} {
		if got := stop.CheckReason(reason) == nil; got != ok {
			t.Errorf("reason %.20q is accepted: %v", reason, got)
		}
	}
}

// A document that Decode cannot read is an error, and does not count as an empty list.
func TestDecode(t *testing.T) {
	for _, bad := range []string{``, `null`, `{}`, `[]`, `{"list":[{"toolset":"files","reason":"r","by":"kim"}],"rev":1}`, `{"list":[{"all":true,"by":"kim"}],"rev":1}`, `{"list":"x","rev":1}`} {
		if s, err := stop.Decode([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, s)
		}
	}
}

// A stored document without any data is an error too.
func TestReadBroken(t *testing.T) {
	var docs documenttest.Store
	require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: stop.Key(), Data: []byte{}}))
	if s, err := stop.Read(t.Context(), &docs); err == nil {
		t.Errorf("Read = %+v", s)
	}
}

func TestNote(t *testing.T) {
	for want, s := range map[string]stop.Stop{
		"stopped by kim: key leaked":          stoptest.All(),
		"stopped in mcp_config.json: for now": {Target: stop.Target{All: true}, Reason: "for now"},
		"stopped in mcp_config.json":          {Target: stop.Target{All: true}},
	} {
		if got := s.Note(); got != want {
			t.Errorf("Note = %q, want %q", got, want)
		}
	}
}
