package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// description is the description in the OpenAPI document.
const description = `People decide here which tools agents may call, and which prompts and resources they may read.

Prompts and resources have the operations of tools, below /admin/prompts and /admin/resources; the
address of a resource ends in the SHA-256 of its URI.

An approval names the hash of the definition that you saw. No request here approves or enables an
item that an operator's rule denies (status disabled_by_config). A decision may name the revision
(rev) of the record that you saw, and is refused if the record has changed since. A refusal says that
nothing was decided, and what to do. Lists have pages: send next of an answer as after to get the
next page. A request that changes something needs the
Content-Type application/json, and is refused if a browser sends it for another site.`

// register adds every operation to mux. It serves no documentation page, because the page would
// load scripts of others, and no schema links, because they would name a host.
func (a *api) register(mux *http.ServeMux) {
	cfg := huma.DefaultConfig("Portcullis admin API", "1")
	cfg.Info.Description = description
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.CreateHooks = nil
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	// Otherwise the API would ignore an unknown filter without a notice.
	cfg.RejectUnknownQueryParameters = true
	h := humago.New(mux, cfg)

	a.registerServers(h)
	a.registerCall(h)
	serve(a, h, get("get-config", "/admin/config", "Get the operator's files in use, the faults of the stored files, and what each rule denies"), a.config)
	list := get("list-tools", "/admin/tools", "List tools, prompts and resources by kind, status, server, tier, state and words")
	list.SkipValidateParams, list.Errors = true, []int{http.StatusUnprocessableEntity}
	serve(a, h, list, a.listTools)
	for _, kind := range []tool.Kind{tool.Tool, tool.Prompt, tool.Resource} {
		a.registerKind(h, kind)
	}
	serve(a, h, post("decide-all", "/admin/tools", "Decide about many tools, prompts and resources, each with the definition that you saw"), a.decideAll)
	a.registerSyncs(h)
	serve(a, h, post("restore-approvals", "/admin/approvals/restore", "Restore from the tool "+
		"catalog the records that the approval store lost"), bare(a.service.Restore))
	serve(a, h, post("accept-approvals", "/admin/approvals/accept", "Keep lost records as the "+
		"approval store has them; definitions without an approval there wait for "+
		"approval"), bare(a.service.Accept))
	a.registerBackup(h)
	serve(a, h, get("health", "/admin/health", "Get the gateway's health: what is wrong, since when, and who can fix it"), a.health)
	a.registerAudit(h)
	a.registerChain(h)
	try := get("try", "/admin/try",
		"Explain what an agent gets for a search, tool by tool, without calling a tool")
	serve(a, h, try,
		func(ctx context.Context, in *decide.SearchQuery) (decide.Explanation, error) {
			return a.service.ExplainSearch(ctx, *in)
		})
	a.registerUsage(h)
	a.registerStops(h)
	a.registerSignIns(h)
	a.registerRequests(h)
	a.registerTokens(h)
	a.registerSessions(h)
	a.registerConnect(h)
	listCodes(h.OpenAPI().Components.Schemas.Map())

	mux.HandleFunc("GET /admin/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		data, err := h.OpenAPI().MarshalJSON()
		if err != nil {
			decide.WriteProblem(w, http.StatusInternalServerError, "internal error")
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
		_, _ = w.Write(data) // this fails only if the caller has gone
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		decide.WriteProblem(w, http.StatusNotFound, "there is nothing here")
	})
}

func get(id, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Errors: []int{http.StatusNotFound}}
}

func post(id, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, Errors: []int{http.StatusNotFound, http.StatusConflict}}
}

type syncOutput struct {
	Status int
	Body   decide.SyncReport
}

// bare converts the function do into an operation without input.
func bare[B any](do func(context.Context) (B, error)) func(context.Context, *struct{}) (B, error) {
	return func(ctx context.Context, _ *struct{}) (B, error) { return do(ctx) }
}

// serve adds an operation that answers with a body of type B.
func serve[I, B any](a *api, h huma.API, op huma.Operation, do func(context.Context, *I) (B, error)) {
	huma.Register(h, op, func(ctx context.Context, in *I) (*struct{ Body B }, error) {
		body, err := do(ctx, in)
		if err != nil {
			return nil, a.fail(ctx, op.OperationID, err)
		}
		return &struct{ Body B }{body}, nil
	})
}

// fail returns what a caller may read of err, and logs the rest.
func (a *api) fail(ctx context.Context, operation string, err error) *problemModel {
	if p, ok := errors.AsType[*problemModel](err); ok {
		return p
	}
	e := a.service.Explain(ctx, operation, err)
	p := problem(e.Status, e.Detail)
	p.Code = e.Code
	for _, c := range e.Parts {
		p.Errors = append(p.Errors, &huma.ErrorDetail{Location: c.Where, Message: c.What})
	}
	return p
}

// A problemModel is an RFC 9457 problem with the code of a refused decision.
type problemModel struct {
	huma.ErrorModel
	Code decide.Code `json:"code,omitempty"`
}

func problem(status int, detail string) *problemModel {
	return &problemModel{ErrorModel: huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}}
}

// listCodes adds the codes of refused decisions to the answer schemas that have one.
func listCodes(schemas map[string]*huma.Schema) {
	var codes []any
	for _, c := range decide.Codes() {
		codes = append(codes, string(c))
	}
	schemas["ErrorModel"].Properties["code"] = &huma.Schema{
		Type: huma.TypeString, Description: "stable: why a decision was refused; absent for " +
			"other problems",
	}
	for _, name := range []string{"ErrorModel", "BulkResult", "Obstruction"} {
		schemas[name].Properties["code"].Enum = codes
	}
}
