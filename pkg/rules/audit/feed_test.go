package audit_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestFeed(t *testing.T) {
	var f audit.Feed
	write := func(note string) { require.OK(t, f.Write(t.Context(), audit.Line{Kind: audit.KindEvent, Note: note})) }
	write("before")
	quick, slow := f.Follow(), f.Follow()
	for range 200 {
		write(strings.Repeat("x", 5000))
		if l := <-quick.Lines; len(l.Note) > 2100 {
			t.Fatalf("a note has %d bytes", len(l.Note))
		}
	}
	if quick.TakeLost() != 0 || slow.TakeLost() != 72 || slow.TakeLost() != 0 ||
		len(slow.Lines) != 128 {
		t.Errorf("the slow follower has %d lines", len(slow.Lines))
	}
	slow.Close()
	write("later")
	if len(slow.Lines) != 128 || (<-quick.Lines).Note != "later" {
		t.Error("a closed follower gets lines, or an open one does not")
	}
	for n := 1; n < audit.MaxFollowers; n++ {
		if f.Follow() == nil {
			t.Fatalf("only %d followers", n)
		}
	}
	if f.Follow() != nil {
		t.Error("too many followers")
	}
	quick.Close()
	if f.Follow() == nil {
		t.Error("a closed follower still counts")
	}
}
