package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// registerServers adds the operations of servers and their processes.
func (a *api) registerServers(h huma.API) {
	serve(a, h, get("list-servers", "/admin/servers", "List the configured servers, with the "+
		"result of their last load and their tools by status"), a.listServers)
	serve(a, h, get("get-server", "/admin/servers/{server}", "Get one server, with the result of "+
		"its last load, its tools by status and its settings in the config"), a.getServer)
	messages := get("get-server-messages", "/admin/servers/{server}/messages", "Get the last "+
		"messages of a server: lines of its program beside MCP, log notifications and errors")
	restart := post("restart-server", "/admin/servers/{server}/restart",
		"End the programs of a server and its sessions, and load the servers")
	messages.Errors = append(
		messages.Errors,
		http.StatusUnprocessableEntity,
		http.StatusNotImplemented,
	)
	restart.Errors = []int{http.StatusNotFound, http.StatusNotImplemented}
	serve(
		a,
		h,
		messages,
		func(ctx context.Context, in *messagesInput) (decide.ServerMessages, error) {
			return a.service.ServerMessages(ctx, in.Server, in.After)
		},
	)
	serve(
		a,
		h,
		restart,
		func(ctx context.Context, in *serverInput) (decide.RestartedServer, error) {
			return a.service.RestartServer(ctx, in.Server)
		},
	)
}

// registerSyncs adds the operations that load servers now.
func (a *api) registerSyncs(h huma.API) {
	serveSync(a, h, post("sync", "/admin/sync", "Load every server now"),
		func(ctx context.Context, _ *struct{}) (decide.SyncReport, error) {
			return a.service.Sync(ctx)
		})
	one := post("sync-server", "/admin/servers/{server}/sync",
		"Load one server now; on AWS, or if the last catalog cannot be used, load every server")
	one.Errors = []int{http.StatusNotFound, http.StatusConflict}
	serveSync(a, h, one, func(ctx context.Context, in *serverInput) (decide.SyncReport, error) {
		return a.service.SyncServer(ctx, in.Server)
	})
}

// serveSync adds an operation that runs a sync, or starts one elsewhere.
func serveSync[I any](
	a *api, h huma.API, op huma.Operation, run func(context.Context, *I) (decide.SyncReport, error),
) {
	op.Responses = map[string]*huma.Response{
		"202": {Description: "Started elsewhere; the body says pending"},
	}
	op.Errors = append(
		op.Errors, http.StatusNotImplemented, http.StatusBadGateway, http.StatusServiceUnavailable,
	)
	huma.Register(h, op, func(ctx context.Context, in *I) (*syncOutput, error) {
		report, err := run(ctx, in)
		switch {
		case err != nil:
			return nil, a.fail(ctx, op.OperationID, err)
		case report.Pending:
			return &syncOutput{http.StatusAccepted, report}, nil
		}
		return &syncOutput{http.StatusOK, report}, nil
	})
}

// registerCall adds the operation that calls a tool.
func (a *api) registerCall(h huma.API) {
	call := post("call-tool", "/admin/call", "Call a tool as an agent would, with every tier. All "+
		"checks of an agent's call apply, and the audit has the call under the person's name")
	call.Errors = []int{http.StatusUnprocessableEntity, http.StatusNotImplemented}
	serve(a, h, call, func(ctx context.Context, in *callInput) (decide.CallAnswer, error) {
		return a.service.Call(ctx, in.Body)
	})
}

type callInput struct{ Body decide.CallQuery }

type messagesInput struct {
	Server string `path:"server"`
	After  string `query:"after" maxLength:"20" doc:"number of a message: only later messages"`
}
