// Package unlock_test tests end to end that people can unlock a tool during a session. The gateway
// refuses an agent's call, the agent's user requests access, the gateway notifies another person,
// and this person decides. The agent's next call succeeds, or its refusal has the reason. The
// gateway is the real program with bolt, or the built functions with an emulator of DynamoDB.
// People use Chromium and sign in at an issuer. Messages go to a stub of Slack, and the tests count
// the server's calls.
package unlock_test

import (
	"os"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

func TestMain(m *testing.M) {
	os.Exit(programtest.Main(func() int { return browsertest.Main(m) }))
}

// The people of these tests.
var (
	sam = person{"u-sam", "sam@example.com", nil}                   // user of an agent, without a role
	kim = person{"u-kim", "kim@example.com", []string{"approvers"}} // decides
)

// A step is a scenario from a refused call to the final answer.
var steps = []struct {
	name string
	run  func(*testing.T, *world)
}{
	{"approved for all", approvedForAll},
	{"declined", declined},
	{"allowed for one agent", allowedForOne},
	{"one call", oneCall},
}

// Each scenario works on bolt with one protocol, and on DynamoDB with the other. The gateway's
// tests have both protocols, and the conformance test of the stores has both stores.
func TestUnlockInPlace(t *testing.T) {
	for _, p := range []struct {
		name string
		open func(*testing.T) *world
		era  era
	}{{"bolt", openBolt, stateless}, {"DynamoDB", openDynamo, handshake}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := p.open(t)
			w.era = p.era
			for _, s := range steps {
				if !t.Run(s.name, func(t *testing.T) { s.run(t, w.in(t)) }) {
					return
				}
			}
		})
	}
}
