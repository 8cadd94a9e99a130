package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// registerConnect adds the operations that explain how to connect clients.
func (a *api) registerConnect(h huma.API) {
	serve(a, h, huma.Operation{
		OperationID: "list-clients", Method: http.MethodGet, Path: "/admin/connect",
		Summary: "The clients with guides, the endpoints, and the clients that have connected",
	}, a.listClients)
	serve(a, h, huma.Operation{
		OperationID: "get-client", Method: http.MethodGet, Path: "/admin/connect/{client}",
		Summary: "How to add an endpoint to one client: a link, a command, files",
		Errors:  []int{http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}, a.getClient)
}

type clientsOutputBody struct {
	Clients   []connect.Client `json:"clients" nullable:"false"`
	Endpoints []string         `json:"endpoints" nullable:"false" doc:"paths for agents"`
	Auths     []connect.Auth   `json:"auths" nullable:"false" doc:"ways to authenticate, the usual one first"`
	Seen      []connect.Visit  `json:"seen,omitempty" doc:"clients that have connected since the process started, newest first; absent if this process does not see them"`
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
	Path   string       `query:"path" maxLength:"200" doc:"path of the endpoint; default /mcp"`
	Auth   connect.Auth `query:"auth" enum:"none,bearer,oauth,signed" doc:"way to authenticate; default: the first of the gateway"`
}

func (a *api) getClient(ctx context.Context, in *clientInput) (decide.Guide, error) {
	return a.service.Guide(ctx, a.gate, in.Client, in.Path, in.Auth)
}
