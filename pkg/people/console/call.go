package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A callPage calls a tool for an operator.
type callPage struct {
	Page
	CanCall   bool
	Tool      string // id
	Agent     string // whose scope the call has; "": every server and tier
	Arguments string // as the person typed them
	Tier      string // "": the tool is unknown
	ItemPage  string
	Once      string // one-time code of the form
	Sure      string // the arguments that the person must confirm; "": nothing waits for that
	Result    *callResult
	Tools     []string // ids to suggest
	Agents    []string
}

// A callResult is the result of a call.
type callResult struct {
	Heading string
	Lock    *decide.CallLock // nil: the tool was not locked
	Asked   string           // address of the request that a person must confirm; "": none
	Text    excerpt
	Bytes   int
}

// callPages registers the pages of calls by operators.
func (c *Console) callPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/call", c.pageOr(next, func(w http.ResponseWriter, r *http.Request) {
		from := r.URL.Query()
		if typed := lateOf(r); typed != nil {
			from = typed
		}
		c.showCall(w, r, http.StatusOK, callPageOf(from))
	}))
	mux.Handle("POST /admin/call", formOr(next, c.call))
}

func callPageOf(form url.Values) *callPage {
	return &callPage{
		Tool: strings.TrimSpace(form.Get("tool")), Agent: strings.TrimSpace(form.Get("agent")),
		Arguments: form.Get("arguments"),
	}
}

// showCall completes and writes the page.
func (c *Console) showCall(w http.ResponseWriter, r *http.Request, status int, p *callPage) {
	p.Title, p.Here, p.CanCall = "Call a tool", "try", c.o.Service.CanCall()
	v := c.o.Service.View(r.Context())
	for i := range v.Tools().All() {
		if len(p.Tools) < maxChoices {
			p.Tools = append(p.Tools, v.ID(i).String())
		}
	}
	known, err := c.o.Service.Agents(r.Context())
	if err != nil { // the agents are only suggestions
		_ = c.o.Service.Explain(r.Context(), "agents", err)
	}
	for _, a := range known[:min(len(known), maxChoices)] {
		p.Agents = append(p.Agents, a.ID)
	}
	id, unparsed := tool.ParseID(p.Tool)
	switch i, ok := v.Find(id); {
	case p.Tool == "" || !p.CanCall:
	case unparsed != nil || !ok || id.Kind != tool.Tool:
		if p.Result == nil {
			status = http.StatusNotFound
			p.Problem = cmp.Or(p.Problem, "No tool is called “"+firstOf(p.Tool, maxNote)+
				"”, and nothing was called. A name has the form server:tool.")
		}
	default:
		p.Title, p.Tier = "Call "+shownID(id), v.Tier(i).String()
		p.ItemPage, p.Once = toolLink(rootOf(r), id, nil), c.calls.New()
		if p.Arguments == "" {
			p.Arguments = requiredArguments(v.Tool(i).Definition.InputSchema)
		}
	}
	c.render(w, r, status, "call", p)
}

// call calls a tool. Unless the tool only reads, it first asks to confirm the arguments. A form has
// an effect only once.
func (c *Console) call(w http.ResponseWriter, r *http.Request) {
	p := callPageOf(r.PostForm)
	q := decide.CallQuery{
		Tool: p.Tool, Agent: p.Agent,
		Arguments: json.RawMessage(strings.TrimSpace(p.Arguments)),
	}
	if p.Tool == "" {
		p.Problem = "Nothing was called: name the tool as server:tool."
		c.showCall(w, r, http.StatusUnprocessableEntity, p)
		return
	}
	if _, err := c.o.Service.CheckCall(r.Context(), q); err != nil {
		c.callFailed(w, r, p, err)
		return
	}
	if r.PostForm.Get("sure") == "" && c.needsConfirmation(r, p.Tool) {
		p.Sure = cmp.Or(rawjson.Indent(q.Arguments, "", "  "), "{}")
		c.showCall(w, r, http.StatusOK, p)
		return
	}
	if !c.calls.Use(r.PostForm.Get("once")) {
		p.Problem = "Nothing was called now: this form was sent already, or its page is older " +
			"than 10 minutes. The audit has every call. To call the tool again, press the button " +
			"again."
		c.showCall(w, r, http.StatusConflict, p)
		return
	}
	a, err := c.o.Service.Call(r.Context(), q)
	if err != nil {
		c.callFailed(w, r, p, err)
		return
	}
	p.Result = callResultOf(rootOf(r), a)
	c.showCall(w, r, http.StatusOK, p)
}

// callFailed shows the page with the error of a call.
func (c *Console) callFailed(w http.ResponseWriter, r *http.Request, p *callPage, err error) {
	e := c.o.Service.Explain(r.Context(), "call", err)
	p.Problem = sentence(e.Detail)
	c.showCall(w, r, e.Status, p)
}

// needsConfirmation reports whether a person must confirm a call of the tool. An unknown tool needs
// no confirmation, because the gateway refuses the call.
func (c *Console) needsConfirmation(r *http.Request, name string) bool {
	v := c.o.Service.View(r.Context())
	id, err := tool.ParseID(name)
	i, ok := v.Find(id)
	return err == nil && ok && v.Tier(i) != tool.Read
}

func callResultOf(root string, a decide.CallAnswer) *callResult {
	var failed struct{ IsError bool }
	_ = json.Unmarshal(a.Result, &failed) // the page shows any other result as it is
	all := resultText(a.Result)
	out := &callResult{Lock: a.Lock(), Text: excerptOf(all, maxText, ""), Bytes: len(a.Result)}
	switch {
	case a.Decision != "allowed":
		out.Heading = "Refused by the gateway, and not called"
	case failed.IsError:
		out.Heading = "The call failed"
	default:
		out.Heading = "Result"
	}
	if out.Lock != nil && out.Lock.Confirm.Request != "" {
		out.Asked = root + "admin/requests/" + url.PathEscape(out.Lock.Confirm.Request)
	}
	return out
}

// requiredArguments returns a JSON object with an empty value for each required member of a schema.
func requiredArguments(schema json.RawMessage) string {
	root, err := rawjson.Parse(schema)
	var out rawjson.Object
	if err == nil {
		for _, name := range root.List("required") {
			kind := root.Get("properties").Get(name.Text).Get("type")
			if kind.Array() && len(kind.Kids) > 0 {
				kind = kind.Kids[0]
			}
			value := `""`
			if kind != nil {
				value = cmp.Or(map[string]string{
					"integer": "0", "number": "0", "boolean": "false", "array": "[]",
					"object": "{}", "null": "null",
				}[kind.Text], value)
			}
			if name.Text != "" && !out.Set(name.Text, []byte(value)) {
				out.Add(name.Text, []byte(value))
			}
		}
	}
	return rawjson.Indent(out.Bytes(), "", "  ")
}

// Scope returns the scope of the call in words.
func (p *callPage) Scope() string {
	if p.Agent == "" {
		return "every server and tier"
	}
	return "the servers, tiers and toolsets of " + text.Quote(p.Agent, maxNote)
}
