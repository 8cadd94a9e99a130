package testclients

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A user is a client in one of its protocols, and its reaction if the gateway requests it to open a
// page.
type user struct {
	client    string
	handshake bool
	version   string // that it negotiates
	way       way
	raises    string // the type of its error; "": it raises none
	note      string // for docs/access-requests.md
}

// A way is a client's reaction if the gateway requests it to open a page.
type way int

const (
	page  way = iota // it opens the page, and calls again automatically
	fails            // it returns an error with the page to its program
	shows            // it cannot open pages, and shows the text of the lock
)

const older, newer = mcp.VersionLegacy, mcp.VersionModern

var users = []user{
	{"TypeScript 1", true, older, fails, "UrlElicitationRequiredError",
		"`UrlElicitationRequiredError`, page in `elicitations`"},
	{"TypeScript 2", false, newer, page, "", ""},
	{"TypeScript 2, handshake", true, older, fails, "UrlElicitationRequiredError", "the same"},
	{"Python mcp", false, newer, page, "", ""},
	{"Python mcp", true, older, fails, "MCPError",
		"`MCPError`, `UrlElicitationRequiredError.from_error`"},
	{"Python fastmcp", false, newer, page, "", ""},
	{"Python fastmcp", true, older, fails, "MCPError", "the same"},
	{"go-sdk", false, newer, page, "", ""},
	{"go-sdk", true, older, fails, "*jsonrpc.Error", "`*jsonrpc.Error`, page in `Data`"},
	{"mcp-go", false, newer, page, "", ""},
	{"mcp-go", true, older, fails, "mcp.URLElicitationRequiredError",
		"`URLElicitationRequiredError`, text in `Elicitations`"},
	{"rmcp", false, newer, page, "", ""},
	{
		"rmcp",
		true,
		older,
		fails,
		"ServiceError::McpError",
		"`ServiceError::McpError`, page in `data`",
	},
	{"mcp-use", true, older, fails, "McpError", "`McpError`, page in `error.data`"},
	{"Inspector", false, newer, shows, "", "its command line declares no elicitation"},
	{"Inspector", true, older, shows, "", "the same"},
}

// The results of a user, in the words of docs/access-requests.md.
const (
	lockWords  = "lock"
	openWords  = "lock: open"
	saysNo     = "lock: declined"
	askedWords = "lock: asked"
	spentWords = "lock: used, asked"
	madeWords  = "asked"
	runsWords  = "answer"
	thenWords  = "page, then "
	errorWords = "error with page"
)

// A stage is one action of an agent, and what its user gets in each of the ways.
type stage struct {
	does string
	gets [3]string
	says []string // texts that the user reads
}

func alike(words string) [3]string { return [3]string{words, words, words} }

func ladder(again, lock string) [3]string { return [3]string{thenWords + again, errorWords, lock} }

// The stages in their order. Between some stages a person decides.
var (
	before = []stage{
		{
			"locked call, elicitation not declared",
			alike(lockWords),
			[]string{
				`"s:push" is locked: pending_approval.`,
				`call request_access with names ["s:push"]`,
				"/admin/ask/",
			},
		},
	}
	asking = []stage{
		{"locked call, its user accepts", ladder(lockWords, lockWords),
			[]string{`call request_access with names ["s:push"]`, "/admin/ask/"}},
		{"locked call, its user declines", ladder(lockWords, lockWords), []string{"/admin/ask/"}},
		{"locked call, its user cancels", ladder(lockWords, lockWords), []string{"/admin/ask/"}},
		{"`request_access`", alike(madeWords),
			[]string{"Request recorded. Tell your user", "/admin/ask/R-"}},
		{"locked call, asked, not decided", alike(openWords),
			[]string{", open). Tell your user", "/admin/ask/R-"}},
		{
			"call to confirm",
			ladder(openWords, askedWords),
			[]string{
				"A person must confirm each call of this tool",
				"Access request R-",
				"/admin/ask/R-",
			},
		},
		{"call to confirm, not decided", alike(openWords), []string{", open). Tell your user"}},
	}
	after = []stage{
		{"locked call, allowed", alike(runsWords), nil},
		{
			"locked call, declined",
			alike(saysNo),
			[]string{
				" declined access request ",
				`Reason: "use staging".`,
				"request access again in 24 hours",
			},
		},
		{"call to confirm, confirmed", alike(runsWords), nil},
		{"call to confirm, confirmed and used", ladder(spentWords, spentWords),
			[]string{
				"was used for a call just now, and is good for that one",
				"Access request R-",
			}},
	}
)

// The tables of docs/access-requests.md describe what the clients do in this test.
func TestUnlockTables(t *testing.T) {
	ways := [3]string{"page", "error", "text"}
	var b strings.Builder
	b.WriteString("| client | protocol | way | what its program gets |\n|---|---|---|---|\n")
	for _, u := range users {
		name, _, _ := strings.Cut(u.client, ",")
		fmt.Fprintf(
			&b,
			"| %s | %s | %s | %s |\n",
			name,
			u.version,
			ways[u.way],
			cmp.Or(u.note, "the result of the second call"),
		)
	}
	clients := b.String()
	b.Reset()
	fmt.Fprintf(
		&b,
		"| what the agent does | %s |\n|---|---|---|---|\n",
		strings.Join(ways[:], " | "),
	)
	for _, s := range slices.Concat(before, asking, after) {
		fmt.Fprintf(&b, "| %s | %s |\n", s.does, strings.Join(s.gets[:], " | "))
	}
	doc, err := os.ReadFile(repo.Path("docs/access-requests.md"))
	require.OK(t, err)
	for _, table := range []string{clients, b.String()} {
		if !strings.Contains(string(doc), "\n\n"+table+"\n") {
			t.Errorf("docs/access-requests.md lacks the table\n%s", table)
		}
	}
}

// Each client shows its user the gateway's text at each step, and continues automatically where it
// should.
func TestUnlock(t *testing.T) {
	findNode(t)
	g := startUnlocking(t)
	take := users
	if lanes == "" {
		take = users[:2]
	}
	for n, u := range take {
		t.Run(u.client+", "+u.version, func(t *testing.T) {
			g.unlocks(t, u, n, func(url, _ string) Endpoint { return Endpoint{URL: url} })
		})
		if lanes != "full" || n > 3 {
			continue
		}
		t.Run(u.client+", "+u.version+", stdio", func(t *testing.T) {
			g.unlocks(t, u, len(take)+n, func(url, token string) Endpoint {
				return Endpoint{
					Command: []string{
						"env",
						"PORTCULLIS_TOKEN=" + token,
						programtest.Build(t),
						"stdio",
						"--url",
						url,
					},
				}
			})
		})
	}
}

// An unlocking contains a gateway whose agents may request access, and a second one in direct mode.
type unlocking struct {
	issuer         *identitytest.Issuer
	upstream       *upstreamtest.Server
	search, direct *programtest.Program
}

func startUnlocking(t *testing.T) *unlocking {
	t.Helper()
	pay := json.RawMessage(
		`{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"amount":{"type":"number"}}},` +
			`"outputSchema":{"type":"object","properties":{"paid":{"type":"boolean"}},"required":["paid"]}}`,
	)
	g := &unlocking{
		issuer: identitytest.Start(t),
		upstream: upstreamtest.New(t, upstreamtest.Options{
			Tools: []json.RawMessage{
				upstreamtest.Tool("push", "Pushes commits.", ""),
				upstreamtest.Tool("drop", "Drops a table.", ""),
				pay,
			},
			Call: func(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
				return json.RawMessage(
					`{"content":[{"type":"text","text":"done: ` + c.Name + `"}],"structuredContent":{"paid":true}}`,
				), nil
			},
		}),
	}
	start := func(gateway string) *programtest.Program {
		dir := t.TempDir()
		programtest.WriteConfig(
			t,
			dir,
			fmt.Sprintf(
				`{"mcpServers": {"s": {"url": %[1]q, "approval": "manual"}, "payments": {"url": %[1]q, "approval": "off"}},
			"gateway": {"requests": true%[2]s}, "tools": {"confirm": ["payments:pay"]}}`,
				g.upstream.URL,
				gateway,
			),
		)
		return programtest.StartWith(t, programtest.Access{Env: map[string]string{
			"PORTCULLIS_AUTH": "jwt", "PORTCULLIS_ISSUER": g.issuer.URL, "PORTCULLIS_AUDIENCE": "gateway", "PORTCULLIS_DEFAULT_SERVERS": "*",
		}, Admin: g.issuer.Token("gateway", map[string]any{"scope": "portcullis:admin"})}, dir)
	}
	g.search, g.direct = start(""), start(`, "mode": "direct", "locked": "result"`)
	return g
}

// unlocks runs a client through all stages. Each client needs another n. at returns the endpoint of
// a gateway, with a token.
func (g *unlocking) unlocks(t *testing.T, u user, n int, at func(url, token string) Endpoint) {
	client := Clients[slices.IndexFunc(Clients, func(c Client) bool { return c.Name == u.client })]
	client.skipLarge(t)
	token := g.issuer.Token(
		"gateway",
		map[string]any{"scope": "portcullis:destructive", "sub": fmt.Sprintf("person %d", n)},
	)
	visit := func(p *programtest.Program, answers []string, steps ...Step) Transcript {
		t.Helper()
		told := client.Visit(
			t,
			at(p.URL+"/mcp", token),
			Visit{Token: token, Handshake: u.handshake, Opens: answers},
			steps...)
		if told.Version != "" && told.Version != u.version {
			t.Errorf("the client negotiates %s", told.Version)
		}
		return told
	}
	through := func(name, args string) Step {
		return call("call_tool_destructive", fmt.Sprintf(`{"name":%q,"args":%s}`, name, args))
	}
	push, pay := through("s:push", `{}`), through("payments:pay", fmt.Sprintf(`{"amount":%d}`, n))
	list := Step{Method: "tools/list"}

	search := call("retrieve_tools", `{"query":"pays an amount"}`)
	told := visit(g.search, nil, list, search, push)
	lists(t, told.Answers[0], "retrieve_tools", requestAccess)
	wantText(t, told.Answers[1], "payments:pay")
	u.shows(t, before, Transcript{Answers: told.Answers[2:], Opened: told.Opened})
	told = visit(g.search, []string{"accept", "decline", "cancel", "accept"}, push, push, push,
		call(requestAccess, `{"names":["s:push","s:drop"],"note":"to release"}`), push, pay, pay)
	asked := u.shows(t, asking, told)
	if len(asked) != 3 {
		t.Fatalf("requests: %q", asked)
	}
	_ = g.upstream.Calls()
	g.decide(t, g.search, asked[0], "allowed", 60, "")
	g.decide(t, g.search, asked[1], "declined", 0, "use staging")
	g.decide(t, g.search, asked[2], "confirmed", 0, "")
	u.shows(t, after, visit(g.search, []string{"accept"}, push, through("s:drop", `{}`), pay, pay))

	direct := call("payments__pay", fmt.Sprintf(`{"amount":%d}`, n))
	told = visit(g.direct, []string{"accept"}, list, direct)
	lists(t, told.Answers[0], "payments__pay", requestAccess)
	asked = u.shows(
		t,
		[]stage{
			{"in direct mode, a call to confirm", ladder(openWords, askedWords),
				[]string{"Access request R-"}},
		},
		Transcript{Answers: told.Answers[1:], Opened: told.Opened},
	)
	g.decide(t, g.direct, asked[0], "confirmed", 0, "")
	told = visit(g.direct, nil, list, direct)
	u.shows(
		t,
		[]stage{{"in direct mode, a call to confirm, confirmed", alike(runsWords), nil}},
		Transcript{Answers: told.Answers[1:]},
	)
}

const requestAccess = "request_access"

// lists checks that a list of tools names these.
func lists(t *testing.T, a Answer, names ...string) {
	t.Helper()
	for _, name := range names {
		if !strings.Contains(string(a.Result), `"`+name+`"`) {
			t.Errorf("the tools lack %s: %+v %s", name, a.Error, a.Result)
		}
	}
}

var requestID = regexp.MustCompile(`R-[0-9A-Z]{8}`)

// shows checks what the user of a client gets at each stage, and returns the ids of the access
// requests.
func (u user) shows(t *testing.T, stages []stage, told Transcript) (asked []string) {
	t.Helper()
	opened := told.Opened
	for i, s := range stages {
		want, a, read := s.gets[u.way], told.Answers[i], ""
		if strings.HasPrefix(want, thenWords) {
			if len(opened) == 0 {
				t.Fatalf("%s: the client opens no page", s.does)
			}
			read = opened[0].Message + "\n"
			if !strings.Contains(read, opened[0].URL) {
				t.Errorf("%s: the page %s is not in the message %s", s.does, opened[0].URL, read)
			}
			opened, want = opened[1:], strings.TrimPrefix(want, thenWords)
		}
		got, text := u.reads(t, a)
		if got != want {
			t.Errorf("%s: gets %s, want %s: %s", s.does, got, want, text)
		}
		read += text
		for _, said := range s.says {
			if !strings.Contains(read, said) {
				t.Errorf("%s: %q lacks %q", s.does, read, said)
			}
		}
		for _, id := range requestID.FindAllString(read, -1) {
			if !slices.Contains(asked, id) {
				asked = append(asked, id)
			}
		}
	}
	if len(opened) > 0 {
		t.Errorf("the client opens more pages: %+v", opened)
	}
	return asked
}

// reads returns what a user gets, in the words of the stages, and the text that the user reads.
func (u user) reads(t *testing.T, a Answer) (what, text string) {
	t.Helper()
	if a.Error != nil {
		if fmt.Sprint(a.Error.Code) != "-32042" || a.Error.Name != u.raises || a.Error.URL == "" {
			t.Errorf("the client raises %+v", a.Error)
		}
		return errorWords, a.Error.Message + " " + a.Error.URL
	}
	r := require.JSON[struct {
		Content []struct{ Text string }
		IsError bool
		Meta    map[string]any `json:"_meta"`
	}](t, string(a.Result))
	if len(r.Content) == 0 {
		return "nothing", string(a.Result)
	}
	text = r.Content[0].Text
	_, locked := r.Meta["dev.portcullis/lock"]
	switch {
	case strings.HasPrefix(text, "done: "):
		return runsWords, text
	case strings.HasPrefix(text, `{"requests":[`):
		return madeWords, text
	case !locked:
		return "another result", string(a.Result)
	case strings.Contains(text, "was used for a call"):
		return spentWords, text
	case strings.Contains(text, "To request access, call request_access"):
		return lockWords, text
	case strings.Contains(text, ", open). Tell your user"):
		return openWords, text
	case strings.Contains(text, " declined access request "):
		return saysNo, text
	case strings.Contains(text, "Access request R-"):
		return askedWords, text
	}
	return "another lock", text
}

// decide carries out a person's decision.
func (g *unlocking) decide(
	t *testing.T,
	p *programtest.Program,
	id, verdict string,
	minutes int,
	reason string,
) {
	t.Helper()
	var r struct{ Hash, Args string }
	p.Ask(http.StatusOK, "/admin/requests/"+id, nil, &r)
	p.Ask(http.StatusOK, "/admin/requests/"+id+"/decide", map[string]any{
		"verdict": verdict, "hash": r.Hash, "args": r.Args, "minutes": minutes, "reason": reason,
	}, nil)
}
