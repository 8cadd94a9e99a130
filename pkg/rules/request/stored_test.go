package request_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Two agents never have the same key, even if their names have unusual characters.
func TestAgentKey(t *testing.T) {
	seen := map[string]request.Agent{}
	for _, a := range []request.Agent{
		{}, {Way: "jwt"}, {ID: "jwt"}, {Way: "jwt", ID: "a"}, {Way: "token", ID: "a"}, {Way: "jwt", ID: "a", Human: "b"}, {Way: "jwt", ID: "a", Subject: "b"},
		{Way: "jwt", ID: "a b"}, {Way: "jwt a", ID: "b"}, {Way: "jwt", ID: `a" "b`}, {Way: "jwt", ID: "a", Human: "b c"}, {Way: "jwt", ID: "a", Human: "b", Subject: "c"},
		{Way: "jwt", ID: "\xff"}, {Way: "jwt", ID: "\xfe"}, {Way: "jwt", ID: "\ufffd"}, {Way: "jwt", ID: `\xff`}, {Way: "jwt", ID: "A"}, {Way: "jwt", ID: "a\x00"},
	} {
		key := a.Key()
		if other, is := seen[key]; is || len(key) != 32 || strings.Trim(key, "0123456789abcdef") != "" {
			t.Errorf("%+v has the key %q, like %+v", a, key, other)
		}
		seen[key] = a
	}
	a := identity.Agent{Way: identity.WayJWT, ID: "ci", Human: "kim", Subject: "https://login.example.com 8f3", Servers: []string{"git"}}
	if got, want := request.AgentOf(a), (request.Agent{Way: "jwt", ID: "ci", Human: "kim", Subject: "https://login.example.com 8f3"}); got != want {
		t.Errorf("AgentOf = %+v, want %+v", got, want)
	}
	for way, alone := range map[string]bool{"": false, identity.WayNone: false, identity.WayJWT: true, identity.WayToken: true, identity.WayIAM: true} {
		if (request.Agent{Way: way, ID: "x"}).Alone() != alone {
			t.Errorf("Alone of an agent by %q = %v", way, !alone)
		}
	}
}

func TestAgentCheck(t *testing.T) {
	for _, bad := range []request.Agent{{}, {Way: "jwt"}, {ID: "a"}, {Way: "jwt", ID: "\xff"}, {Way: "jwt", ID: "a", Human: "\xff"}, {Way: "jwt", ID: "a", Subject: "\xff"}} {
		_, _, asked := request.List{Agent: bad}.Encode()
		_, _, granted := request.Granted{Agent: bad}.Encode()
		if bad.Check() == nil || asked == nil || granted == nil {
			t.Errorf("%+v is accepted: %v, %v", bad, asked, granted)
		}
	}
}

// A stored document fits into an item of DynamoDB, with any characters in its texts. A larger
// document is refused.
func TestSizes(t *testing.T) {
	const item = 400 << 10
	for name, letter := range map[string]string{"plain": "x", "three bytes": "日", "escaped": "\u2028"} {
		a := request.List{Agent: requesttest.Agent("ci")}
		g := request.Granted{Agent: a.Agent}
		for i := range request.MaxOpen + 22 {
			r := requesttest.To("git", fmt.Sprint(i))
			r.ID, r.Note, r.Why = request.NewID(), strings.Repeat(letter, request.MaxNote), strings.Repeat(letter, request.MaxNote)
			a.List = append(a.List, r)
		}
		for range 144 {
			d := request.Decide(requesttest.To("git", "push"), request.Declined, 0, "kim", strings.Repeat(letter, request.MaxReason), noon)
			d.Request = request.NewID()
			g.List = append(g.List, d)
		}
		for doc, encode := range map[string]func() ([]byte, error){
			"asked":   func() ([]byte, error) { _, data, err := a.Encode(); return data, err },
			"granted": func() ([]byte, error) { _, data, err := g.Encode(); return data, err },
		} {
			data, err := encode()
			if err != nil && !errors.Is(err, request.ErrFull) || len(data) > item-1024 && err == nil {
				t.Errorf("%s of %s letters: %d bytes, %v", doc, name, len(data), err)
			}
			if name != "escaped" && err != nil {
				t.Errorf("%s of %s letters is refused: %v", doc, name, err)
			}
		}
	}
}

func FuzzDecodeAsked(f *testing.F) {
	a, _, _, err := request.List{Agent: requesttest.Agent("ci")}.Add(requesttest.To("git", "push"), request.Granted{}, nil, noon)
	require.OK(f, err)
	_, data, err := a.Encode()
	require.OK(f, err)
	f.Add(data)
	for _, s := range []string{``, `null`, `{}`, `[]`, `{"agent":{"way":"token","id":"token:ci"},"list":[{}]}`, `{"agent":{"way":"token","id":"token:ci"},"rev":1}`} {
		f.Add([]byte(s))
	}
	key := requesttest.Agent("ci").Key()
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := request.DecodeList(key, data)
		if err != nil {
			return
		}
		if a.Agent != requesttest.Agent("ci") || a.Check() != nil {
			t.Errorf("DecodeList(%q) = %+v", data, a)
		}
		if _, err := request.DecodeList(requesttest.Agent("cd").Key(), data); err == nil {
			t.Errorf("%q is read as a document of another agent", data)
		}
	})
}

func FuzzDecodeGranted(f *testing.F) {
	r := requesttest.To("git", "push")
	r.ID = request.NewID()
	_, data, err := request.Granted{Agent: requesttest.Agent("ci"), List: []request.Decision{request.Decide(r, request.Allowed, 5, "kim", "", noon)}}.Encode()
	require.OK(f, err)
	f.Add(data)
	for _, s := range []string{``, `null`, `{}`, `[]`, `{"agent":{"way":"token","id":"token:ci"},"list":[{}]}`, `{"agent":{"way":"token","id":"token:ci"},"rev":1}`} {
		f.Add([]byte(s))
	}
	key := requesttest.Agent("ci").Key()
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := request.DecodeGranted(key, data)
		if err != nil {
			return
		}
		if g.Agent != requesttest.Agent("ci") || g.Check() != nil {
			t.Errorf("DecodeGranted(%q) = %+v", data, g)
		}
	})
}
