package identity

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// None takes every caller for one agent that may see every server and call every
// tier. It stands for PORTCULLIS_AUTH=none, which an operator has to say outright. It lets
// nobody use the admin API: what an agent is refused there it could otherwise open itself.
type None struct{}

// anonymous is the id of the one agent of [None].
const anonymous = "anonymous"

var _ Authenticator = None{}

// Authenticate never fails, and reads nothing of the request.
func (None) Authenticate(*http.Request) (Agent, error) {
	return Agent{
		ID: anonymous, Way: WayNone,
		Servers: []string{"*"},
		Tiers:   []tool.Tier{tool.Read, tool.Write, tool.Destructive},
	}, nil
}
