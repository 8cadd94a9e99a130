package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// registerConnect adds the operations that say how clients are told of the gateway.
func (a *api) registerConnect(h huma.API) {
	serve(a, h, huma.Operation{
		OperationID: "list-clients", Method: http.MethodGet, Path: "/admin/connect",
		Summary: "The clients that there are guides for, the endpoints, and which clients have come",
	}, a.listClients)
	serve(a, h, huma.Operation{
		OperationID: "get-client", Method: http.MethodGet, Path: "/admin/connect/{client}",
		Summary: "How one client is told of an endpoint: a link, a command, files",
		Errors:  []int{http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, a.getClient)
}

type clientsOutputBody struct {
	Clients   []connect.Client `json:"clients" nullable:"false"`
	Endpoints []string         `json:"endpoints" nullable:"false" doc:"paths at which agents can ask"`
	Auths     []connect.Auth   `json:"auths" nullable:"false" doc:"in which ways callers are let in, the usual one first"`
	Seen      []connect.Visit  `json:"seen,omitempty" doc:"clients that have come since the process was started, newest first; left out where nobody remembers"`
}

func (a *api) listClients(ctx context.Context, _ *struct{}) (clientsOutputBody, error) {
	out := clientsOutputBody{Clients: connect.Clients(), Endpoints: a.service.Endpoints(ctx), Auths: append([]connect.Auth{}, a.gate.Auths...)}
	if a.gate.Seen != nil {
		out.Seen = a.gate.Seen.Since(time.Time{}, "")
	}
	return out, nil
}

type clientInput struct {
	Client string       `path:"client" maxLength:"64"`
	Path   string       `query:"path" maxLength:"200" doc:"of the endpoint; /mcp unless given"`
	Auth   connect.Auth `query:"auth" enum:"none,bearer,oauth,signed" doc:"the first of the gateway's unless given"`
}

func (a *api) getClient(ctx context.Context, in *clientInput) (decide.Guide, error) {
	return a.service.Guide(ctx, a.gate, in.Client, in.Path, in.Auth)
}
