// Package unlock_test proves from end to end that a lock can be lifted during a session: an agent
// meets the lock, its user asks, the gateway notifies another person, and that person decides. The
// agent's next try succeeds, or its refusal has the reason. The gateway is the real program over
// bolt, or the built functions over DynamoDB of an emulator. People use a Chromium and sign in at
// an issuer. Messages go to a stub of Slack, and the test counts what the server received.
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
	sam = person{"u-sam", "sam@example.com", nil}                   // for whom an agent acts; she has no role
	kim = person{"u-kim", "kim@example.com", []string{"approvers"}} // who decides
	lee = person{"u-lee", "lee@example.com", []string{"approvers"}} // who decides too
)

// A step is one way from a lock to an answer.
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

// Actions of people and agents at the same time.
var races = []struct {
	name string
	run  func(*testing.T, *world)
}{
	{"two approvers", twoApprovers},
	{"many join", manyJoin},
	{"confirmed once", confirmedOnce},
	{"decisions against a change", decisionsAgainstAChange},
}

// In both protocols, on bolt and on DynamoDB.
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
