package gateway

import (
	"math/rand/v2"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestCompactIsEncoded compares random answers with the output of encoding/json.
func TestCompactIsEncoded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "fs:read_file", `say "hi" \ <b>&`, "line\nline\u2028\x01", "\xffé検", "(a:string, b?:integer)"}
	text := func() string { return texts[r.IntN(len(texts))] }
	for range 300 {
		m := matches{Tools: make([]match, r.IntN(4)), Total: r.IntN(2000), Notice: text()}
		for i := range m.Tools {
			m.Tools[i] = match{Name: text(), Signature: text(), Lossy: r.IntN(2) == 0, Description: text(), CallWith: text()}
		}
		for range r.IntN(3) {
			m.More = append(m.More, text())
		}
		for range r.IntN(3) {
			m.Disabled = append(m.Disabled, lockedMatch{Name: text(), Description: text(), Status: lock.PendingApproval, Note: text()})
		}
		if r.IntN(2) == 0 {
			m.Remediation = rawjson.Object{{Name: "pending_approval", Value: rawjson.Quote(text())}}.Bytes()
		}
		want, err := rawjson.Encode(m)
		require.OK(t, err)
		if got := string(m.appendCompact(nil)); got != string(want) {
			t.Fatalf("%s\nwant %s", got, want)
		}
	}
}
