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
	lee = person{"u-lee", "lee@example.com", []string{"approvers"}} // decides too
)

// A step is a scenario from a refused call to the final answer.
type step struct {
	name string
	run  func(*testing.T, *world, era)
}

var steps = []step{
	{"approved for all", approvedForAll},
	{"declined", declined},
	{"allowed until an end", allowedUntilAnEnd},
	{"one call", oneCall},
}

// races contains scenarios with simultaneous actions of people and agents.
var races = []struct {
	name string
	run  func(*testing.T, *world)
}{
	{"two approvers", twoApprovers},
	{"many join", manyJoin},
	{"confirmed once", confirmedOnce},
	{"decisions against a change", decisionsAgainstAChange},
}

// Each scenario works with both protocols, on bolt and on DynamoDB.
func TestUnlockInPlace(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			open := p.prepare(t)
			for _, e := range eras {
				t.Run(e.name, func(t *testing.T) {
					t.Parallel()
					w := open(t)
					for _, s := range steps {
						if !t.Run(s.name, func(t *testing.T) { s.run(t, w.in(t), e) }) {
							return
						}
					}
				})
			}
			for _, r := range races {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					r.run(t, open(t))
				})
			}
		})
	}
}
