package identity

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// None treats every caller as one agent that may see every server and call every tier. It
// implements PORTCULLIS_AUTH=none, which an operator has to set explicitly. It admits nobody to the
// admin API, because an agent could lift its own refusals there.
type None struct{}

// anonymous is the id of the one agent of [None].
const anonymous = "anonymous"

var _ Authenticator = None{}

// Authenticate never fails, and reads nothing from the request.
func (None) Authenticate(*http.Request) (Agent, error) {
	return Agent{
		ID: anonymous, Way: WayNone,
		Servers: []string{"*"},
		Tiers:   []tool.Tier{tool.Read, tool.Write, tool.Destructive},
	}, nil
}
