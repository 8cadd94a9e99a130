package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/doctor"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// visitTime is how long an address may take to answer.
const visitTime = 10 * time.Second

// keyEnds is how long before the end of a previous token key the doctor warns.
const keyEnds = 30 * 24 * time.Hour

// fromOutside checks a gateway as a client would, and asks for its health.
func (x *examination) fromOutside(ctx context.Context) {
	at, err := client.Address(x.cmd.URL, "")
	if err != nil {
		x.find("gateway_unreached", x.cmd.URL, err.Error(), "")
		return
	}
	x.plain(at, at)
	if x.reach(ctx, at, "gateway_unreached") {
		x.metadata(ctx, at)
		x.health(ctx)
	}
}

// plain adds a finding if credentials go over the network in clear.
func (x *examination) plain(address, about string) {
	if strings.HasPrefix(address, "http://") && !client.ToLoopback(address) {
		x.find("base_url_plain", about, "It begins with http://, and is not this machine.", "")
	}
}

// reach requests /healthz, which answers everybody, and reports whether a gateway answers.
func (x *examination) reach(ctx context.Context, base, code string) bool {
	got, err := visit(ctx, http.MethodGet, base+"/healthz", "")
	switch {
	case err != nil:
		x.find(code, base, err.Error(), "curl -sS "+base+"/healthz")
		return false
	case !strings.Contains(string(got.body), `"status"`):
		x.find("gateway_foreign", base, fmt.Sprintf("%s/healthz answers %d, but not like a "+
			"gateway.", base, got.status), "curl -sS "+base+"/healthz")
		return false
	}
	x.Findings = append(x.Findings, doctor.FindSkew(base, doctor.Skew(got.header, time.Now()))...)
	return true
}

// resourceMetadata matches the part of a 401 answer that tells a client where to get a token.
var resourceMetadata = regexp.MustCompile(`resource_metadata="?([^",\s]+)`)

// metadata checks whether the gateway's own address is the address of the request, because a client
// refuses a token for another address.
func (x *examination) metadata(ctx context.Context, base string) {
	got, err := visit(ctx, http.MethodPost, base+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if err != nil || got.status != http.StatusUnauthorized {
		return // the gateway accepts everybody, or its health has the reason
	}
	m := resourceMetadata.FindStringSubmatch(got.header.Get("Www-Authenticate"))
	if m == nil {
		return // the gateway accepts no tokens of an issuer
	}
	const what = "base_url_differs"
	answer, err := visit(ctx, http.MethodGet, m[1], "")
	var meta struct{ Resource string }
	switch {
	case err != nil:
		x.find(what, base, fmt.Sprintf("It sends clients to %s, which does not answer: %v", text.Clip(text.Line(m[1]), 200), err), "")
	case json.Unmarshal(answer.body, &meta) != nil || meta.Resource == "":
		x.find(what, base, fmt.Sprintf("It sends clients to %s, which answers %d without "+
			"metadata.", text.Clip(text.Line(m[1]), 200), answer.status), "")
	case !strings.EqualFold(strings.TrimSuffix(meta.Resource, "/"), base+"/mcp"):
		x.find(what, base, fmt.Sprintf("It names %s as its own address, and this request went "+
			"to %s/mcp.", text.Clip(text.Line(meta.Resource), 200), base), "")
	}
}

// A visitAnswer is the answer of an address.
type visitAnswer struct {
	status int
	header http.Header
	body   []byte
}

// visit sends a request without a credential.
func visit(ctx context.Context, method, address, body string) (visitAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*visitTime) // the body may take the same time again
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return visitAnswer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	res, err := client.Send(visitTime, req)
	if err != nil {
		return visitAnswer{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	return visitAnswer{res.StatusCode, res.Header, data}, err
}

// health asks the gateway for its problems, and for the last answers of its servers.
func (x *examination) health(ctx context.Context) {
	g, err := x.cmd.view(ctx, x.env, "doctor")
	if err != nil {
		x.find("folder_unopened", x.cmd.folder(), strings.TrimPrefix(err.Error(), "doctor: "), "")
		return
	}
	defer g.close()
	h, err := client.Health.Do(ctx, g.Client, nil, nil)
	if err != nil {
		x.unseen(g, err)
		return
	}
	for _, r := range h.Value.Reasons {
		if x.isReported(r.Code) {
			continue
		}
		f := x.find("unhealthy", r.Code, r.Message, "")
		if f.Do = actionOf(r, !g.IsEmbedded()); r.Condition == state.Degraded {
			f.Severity = doctor.Warning
		}
	}
	x.tokens(ctx, g)
	if x.cmd.URL != "" {
		for _, w := range h.Value.State.Warnings {
			x.find("config_warning", g.Base, w, "")
		}
	}
	if !x.cmd.Probe { // with --probe, this command asks the servers
		x.servers(ctx, g)
	}
}

// servers adds a finding for each server that did not load, from the last answer that the gateway
// got.
func (x *examination) servers(ctx context.Context, g *gateway) {
	servers, err := g.Servers(ctx)
	if err != nil {
		x.unseen(g, err)
		return
	}
	x.vaultKey(servers)
	for _, srv := range servers {
		if srv.Enabled && hasProblem(srv.Outcome) {
			x.Findings = append(x.Findings, x.loadFinding(srv))
		}
	}
}

// hasProblem reports whether a server did not load, or refused a call that needs a sign-in.
func hasProblem(o decide.Outcome) bool {
	return o.Status != "unknown" && (o.Status != string(outcome.Available) || o.Reason != "")
}

// vaultKey adds a finding if the key of the stored sign-ins is lost.
func (x *examination) vaultKey(servers []decide.Server) {
	if x.cmd.URL != "" {
		return
	}
	path := filepath.Join(x.cmd.folder(), folder.VaultFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	var names []string
	for _, s := range servers {
		if s.Outcome.Connected {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		x.find("vault_key_missing", path,
			"It is gone, and without it the gateway cannot open its sign-ins: "+text.List(names, 10)+".", "")
	}
}

// tokens checks whether some agent tokens become invalid with their key before they expire.
func (x *examination) tokens(ctx context.Context, g *gateway) {
	page, err := g.Tokens(ctx)
	if err != nil || page.Keys == nil {
		return // there are no tokens, or the gateway's health has the reason
	}
	list := x.commandLine("token list")
	if x.cmd.URL != "" {
		list = "portcullis token list --url " + connect.Shell(x.cmd.URL)
	}
	if p := page.Keys.Previous; p != nil && p.Live > 0 && !p.Until.IsZero() && p.Last.After(p.Until) && time.Until(p.Until) < keyEnds {
		x.find("tokens_end", text.Count(p.Live, "agent token"),
			fmt.Sprintf("They use the previous key, which the gateway accepts until %s. The last "+
				"of them would expire on %s.", atMinute(p.Until), atMinute(p.Last)), list)
	}
	if n := page.Keys.Void; n > 0 {
		x.find("tokens_void", text.Count(n, "agent token"), "Their key is gone, so the gateway "+
			"refuses them.", list)
	}
}

// isReported reports whether another finding already covers a reason of the gateway's health.
func (x *examination) isReported(reason string) bool {
	found := func(code string) bool {
		return slices.ContainsFunc(x.Findings, func(f doctor.Finding) bool { return f.Code == code })
	}
	switch reason {
	case "config_refused", "config_gone", "config_unread", "config_missing":
		return found("config_fault")
	case "policy_refused", "policy_unread":
		return found("policy_fault")
	case "policy_gone":
		return found("policy_fault") || found("policy_warning")
	case "catalog_unusable", "catalog_unread":
		return found("catalog_unread")
	case "catalog_newer":
		return found(reason)
	case "servers_down", "servers_away":
		return true // each server has a finding with the reason
	}
	return false
}

// unseen adds a finding with the reason why the gateway did not report its state.
func (x *examination) unseen(g *gateway, err error) {
	code := "gateway_unreached"
	var keyless error
	if !g.IsEmbedded() {
		_, keyless = g.Credential()
	}
	if r, ok := errors.AsType[*client.Refusal](err); keyless != nil || ok && r.Status < http.StatusInternalServerError {
		code = "credential"
	}
	x.find(code, g.Base, strings.TrimPrefix(err.Error(), "doctor: "), "")
}

// probe asks the servers of the folder's config as its gateway would.
func (x *examination) probe(ctx context.Context) error {
	if x.cfg == nil {
		fmt.Fprintln(x.env.stderr, "doctor asks no server: there is no config that can be used")
		return nil
	}
	settings, err := folder.Settings(x.env.getenv, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	if err != nil {
		return nil // another finding says so
	}
	known := x.ownAnswers(ctx)
	var targets []upstream.Target
	for _, s := range x.cfg.Servers {
		if s.Enabled && !known[s.Name] {
			targets = append(targets, catalog.Target(s, outcome.Outcome{}))
		}
	}
	lookup := func(name string) (string, bool) { v := x.env.getenv(name); return v, v != "" }
	client := upstream.New(&upstream.Options{
		Secrets: secret.Env{Lookup: lookup}, AllowNets: settings.AllowNets, Version: boot.Version, Commands: x.cmd.AllowCommands, Concurrency: settings.Concurrency,
	})
	defer folder.EndServers(context.WithoutCancel(ctx), client)
	dialer := &egress.Dialer{Rule: egress.Rule{Allow: settings.AllowNets}}
	transport := dialer.Transport()
	defer transport.CloseIdleConnections()
	bar := newProgress(x.env.stderr, x.env.terminal, "asking", "server")
	bar.begin(len(targets))
	done := 0
	outcomes, found := doctor.Probe{Loader: client, Transport: transport}.Ask(ctx, targets, func(o outcome.Outcome) {
		done++
		bar.step(done, fmt.Sprintf("%q is %s", o.ServerID, o.Status))
	})
	bar.end()
	if ctx.Err() != nil {
		return errors.New("doctor: interrupted; nothing was fixed")
	}
	for _, o := range outcomes {
		x.Asked = append(x.Asked, askedServer{
			Server: o.ServerID, Status: o.Status, Reason: o.Reason, Tools: len(o.Tools), Duration: o.Duration.Round(time.Millisecond).String(),
		})
	}
	x.Findings = append(x.Findings, found...)
	return nil
}

// ownAnswers asks the folder's gateway about the servers that only the gateway reaches: programs
// that it runs, and servers at which it is signed in. It returns the names of these servers. With
// --allow-commands this process starts the programs.
func (x *examination) ownAnswers(ctx context.Context) map[string]bool {
	_, runs, err := folder.Running(x.cmd.folder())
	runs = runs && err == nil
	g, err := x.cmd.view(ctx, x.env, "doctor")
	if err != nil {
		return nil // the gateway has ended, or another finding has the reason
	}
	defer g.close()
	servers, err := g.Servers(ctx)
	reported := func(f doctor.Finding) bool {
		return f.Code == "credential" || f.Code == "gateway_unreached"
	}
	if err != nil && runs && !slices.ContainsFunc(x.Findings, reported) {
		x.unseen(g, err)
	}
	known := map[string]bool{}
	if runs && !x.cmd.AllowCommands {
		for _, c := range x.cfg.Servers {
			known[c.Name] = c.Command != nil
		}
	}
	for _, s := range servers {
		known[s.Name] = known[s.Name] || s.Outcome.Connected
		if !known[s.Name] || !s.Enabled {
			continue
		}
		o := s.Outcome
		x.Asked = append(x.Asked, askedServer{
			Server: s.Name, Status: outcome.Status(o.Status), Reason: o.Reason,
			Gateway:  cmp.Or(g.Base, "the folder"),
			Tools:    s.Tools.Callable + s.Tools.Locked(),
			Duration: (time.Duration(o.DurationMS) * time.Millisecond).String(),
		})
		if hasProblem(o) {
			x.Findings = append(x.Findings, x.loadFinding(s))
		}
	}
	x.vaultKey(servers)
	return known
}

// loadFinding returns the finding of a server that the gateway could not load.
func (x *examination) loadFinding(s decide.Server) doctor.Finding {
	o := s.Outcome
	f := doctor.LoadFinding("server "+text.Quote(s.Name, 80), s.Name, outcome.Status(o.Status),
		o.Reason, o.HTTPStatus, o.Message, o.Error, o.Challenge)
	if (outcome.Outcome{Reason: o.Reason}).NeedsSignIn() {
		login := "servers login " + connect.Shell(s.Name)
		if f.Run = x.commandLine(login); x.cmd.URL != "" {
			f.Run = "portcullis " + login + " --url " + connect.Shell(x.cmd.URL)
		}
	}
	return f
}
