package approvaltest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestMem(t *testing.T) {
	approvaltest.Run(t, func(*testing.T) approval.Store { return new(approvaltest.Mem) })
}

func TestMemHooksOfWrites(t *testing.T) {
	gone := errors.New("connection reset")
	for name, kept := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(name, func(t *testing.T) {
			m := &approvaltest.Mem{OnPut: func(context.Context, approval.Record) (bool, error) { return kept, gone }}
			r := approval.Record{Server: "s", Tool: "t", State: approval.Pending}
			if _, err := m.Put(t.Context(), r, nil); !errors.Is(err, gone) {
				t.Errorf("Put = %v, want the hook's error", err)
			}
			if _, err := m.Get(t.Context(), r.ID()); errors.Is(err, approval.ErrNotFound) == kept {
				t.Errorf("Get = %v, want the record stored: %v", err, kept)
			}
		})
	}
}

func TestMemInPages(t *testing.T) {
	approvaltest.Run(t, func(*testing.T) approval.Store { return &approvaltest.Mem{Page: 1000} })
}

func TestMemHooksOfReads(t *testing.T) {
	gone := errors.New("connection reset")
	m := &approvaltest.Mem{
		OnGet:     func(context.Context, tool.ID) error { return gone },
		OnRecords: func(context.Context, string) error { return gone },
		OnChanges: func(context.Context, time.Time) error { return gone },
		OnAudit:   func(context.Context, string) error { return gone },
	}
	_, get := m.Get(t.Context(), tool.ID{Server: "s", Name: "t"})
	_, records := m.Records(t.Context(), "s")
	_, _, changes := m.Changes(t.Context(), time.Time{}, "")
	_, audit := m.Audit(t.Context(), "s", approval.Cursor{}, 1)
	for name, err := range map[string]error{"Get": get, "Records": records, "Changes": changes, "Audit": audit} {
		if !errors.Is(err, gone) {
			t.Errorf("%s = %v, want the hook's error", name, err)
		}
	}
}

func TestClock(t *testing.T) {
	c := &approvaltest.Clock{Begin: time.Now()}
	before := c.Now()
	c.Wall -= time.Hour
	c.Monotonic += time.Minute
	if got := c.Now().Sub(before); got != time.Minute {
		t.Errorf("%v have passed by the monotonic clock, want a minute", got)
	}
	if got := c.Now().Round(0).Sub(before.Round(0)); got != -time.Hour {
		t.Errorf("%v have passed by the wall clock, want -1h", got)
	}
}
