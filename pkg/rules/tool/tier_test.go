package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestTier(t *testing.T) {
	yes, no := new(true), new(false)
	for _, tc := range []struct {
		name string
		a    tool.Annotations
		want tool.Tier
	}{
		{"no hint means destructive", tool.Annotations{}, tool.Destructive},
		{"read-only", tool.Annotations{ReadOnlyHint: yes}, tool.Read},
		{"read-only wins over destructive", tool.Annotations{ReadOnlyHint: yes, DestructiveHint: yes}, tool.Read},
		{"not read-only without another hint is destructive", tool.Annotations{ReadOnlyHint: no}, tool.Destructive},
		{"not destructive is write", tool.Annotations{DestructiveHint: no}, tool.Write},
		{"neither read-only nor destructive is write", tool.Annotations{ReadOnlyHint: no, DestructiveHint: no}, tool.Write},
		{"destructive", tool.Annotations{DestructiveHint: yes}, tool.Destructive},
		{"other hints change nothing", tool.Annotations{IdempotentHint: yes, OpenWorldHint: no}, tool.Destructive},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.a.Tier(); got != tc.want {
				t.Errorf("Tier() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTierText(t *testing.T) {
	for tier, want := range map[tool.Tier]string{tool.Read: `"read"`, tool.Write: `"write"`, tool.Destructive: `"destructive"`} {
		b, err := json.Marshal(tier)
		if err != nil || string(b) != want {
			t.Errorf("Marshal(%v) = %s, %v; want %s", tier, b, err, want)
		}
		back := tool.Tier(9)
		if err := json.Unmarshal(b, &back); err != nil || back != tier {
			t.Errorf("Unmarshal(%s) = %v, %v; want %v", b, back, err, tier)
		}
	}
	if _, err := json.Marshal(tool.Tier(3)); err == nil {
		t.Error("a tier that does not exist was written")
	}
	for _, s := range []string{"", "READ", "admin", "tier(3)"} {
		if got, err := tool.ParseTier(s); err == nil || got != tool.Destructive {
			t.Errorf("ParseTier(%q) = %v, %v; want destructive and an error", s, got, err)
		}
	}
	tier := tool.Read
	if err := tier.UnmarshalText([]byte("nonsense")); err == nil || tier != tool.Read {
		t.Errorf("UnmarshalText(nonsense) = %v, %v; want an error and no change", tier, err)
	}
}

func TestOverride(t *testing.T) {
	yes, no := new(true), new(false)
	for _, tc := range []struct {
		name          string
		a, over, want tool.Annotations
	}{
		{"nothing over nothing", tool.Annotations{}, tool.Annotations{}, tool.Annotations{}},
		{
			"hints that the operator does not set stay",
			tool.Annotations{Title: "t", ReadOnlyHint: yes, OpenWorldHint: no},
			tool.Annotations{},
			tool.Annotations{Title: "t", ReadOnlyHint: yes, OpenWorldHint: no},
		},
		{
			"hints that the operator sets win, true or false",
			tool.Annotations{Title: "t", ReadOnlyHint: yes, DestructiveHint: yes, IdempotentHint: no},
			tool.Annotations{Title: "o", ReadOnlyHint: no, DestructiveHint: no, IdempotentHint: yes, OpenWorldHint: yes},
			tool.Annotations{Title: "o", ReadOnlyHint: no, DestructiveHint: no, IdempotentHint: yes, OpenWorldHint: yes},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.a.Override(tc.over)); diff != "" {
				t.Errorf("Override (-want +got):\n%s", diff)
			}
		})
	}
}
