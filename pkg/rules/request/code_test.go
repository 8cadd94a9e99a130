package request_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func sealer(secret byte) *seal.Sealer {
	return seal.New(func(context.Context) (seal.Keys, error) {
		return seal.Keys{Current: bytes.Repeat([]byte{secret}, seal.MinKey)}, nil
	})
}

func sampleCode() request.Code {
	return request.Code{
		Agent: requesttest.Agent("ci"), Item: tool.ID{Server: "git", Name: "push", Kind: tool.Prompt}, Hash: requesttest.Hash, Status: lock.PendingApproval,
	}
}

func TestCode(t *testing.T) {
	s := sealer(1)
	want := sampleCode()
	text, err := request.SealCode(t.Context(), s, want, noon)
	require.OK(t, err)
	want.Expires = noon.Add(24 * time.Hour).Unix()
	for _, now := range []time.Time{noon, noon.Add(24*time.Hour - time.Second)} {
		got, err := request.OpenCode(t.Context(), s, text, now)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("OpenCode: %v (-want +got):\n%s", err, d)
		}
	}
	plain, err := json.Marshal(want)
	require.OK(t, err)
	login, err := s.Seal(t.Context(), seal.Login, plain)
	require.OK(t, err)
	part := func(change func(*request.Code)) string {
		c := want
		change(&c)
		plain, err := json.Marshal(c)
		require.OK(t, err)
		text, err := s.Seal(t.Context(), seal.Ask, plain)
		require.OK(t, err)
		return text
	}
	elsewhere, err := request.SealCode(t.Context(), sealer(2), want, noon)
	require.OK(t, err)
	for name, tt := range map[string]struct {
		text string
		now  time.Time
	}{
		"expired":              {text, noon.Add(24 * time.Hour)},
		"sealed to log in":     {login, noon},
		"another key":          {elsewhere, noon},
		"cut off":              {text[:len(text)-1], noon},
		"longer":               {text + "A", noon},
		"changed":              {text[:20] + map[bool]string{true: "B", false: "A"}[text[20] == 'A'] + text[21:], noon},
		"empty":                {"", noon},
		"an id":                {"R-7KQ2M4XD", noon},
		"without an agent":     {part(func(c *request.Code) { c.Agent = request.Agent{} }), noon},
		"without a way":        {part(func(c *request.Code) { c.Agent.Way = "" }), noon},
		"without an item":      {part(func(c *request.Code) { c.Item = tool.ID{} }), noon},
		"without a definition": {part(func(c *request.Code) { c.Hash = "" }), noon},
		"without an end":       {part(func(c *request.Code) { c.Expires = 0 }), noon},
	} {
		if c, err := request.OpenCode(t.Context(), s, tt.text, tt.now); !errors.Is(err, seal.ErrForged) || c != (request.Code{}) {
			t.Errorf("%s: OpenCode = %+v, %v; want ErrForged", name, c, err)
		}
	}
	none := seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{}, errors.New("denied") })
	if _, err := request.OpenCode(t.Context(), none, text, noon); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("OpenCode without a key = %v, want ErrNoKey", err)
	}
	if _, err := request.SealCode(t.Context(), none, want, noon); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("SealCode without a key = %v, want ErrNoKey", err)
	}
}

// OpenCode returns only complete codes.
func FuzzOpenCode(f *testing.F) {
	s := sealer(1)
	f.Add([]byte(`{"a":{"way":"jwt","id":"x"},"i":{"Server":"git","Name":"push"},"h":"1","e":9999999999}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		text, err := s.Seal(t.Context(), seal.Ask, plain)
		require.OK(t, err)
		c, err := request.OpenCode(t.Context(), s, text, noon)
		if err == nil && (c.Agent.Check() != nil || c.Item.Name == "" || c.Hash == "" || c.Expires <= noon.Unix()) || err != nil && c != (request.Code{}) {
			t.Errorf("OpenCode of %q = %+v, %v", plain, c, err)
		}
	})
}
