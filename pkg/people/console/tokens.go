package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// A tokensPage lists the agent tokens, and has the form for a new one.
type tokensPage struct {
	Page
	Tokens []tokenRow
	pager
	Made  *madeToken
	Keys  *token.KeySummary // nil: the keys cannot be read, or were never replaced
	Form  tokenForm
	Ended *endedToken
}

// An endedToken is a token that was just revoked.
type endedToken struct {
	Agent string
	decide.TokenGrants
	N int // number of grants; the page lists the first ones
}

// A tokenRow is an agent token in the list.
type tokenRow struct {
	token.Token
	Status string
	Place  token.KeyStatus
	Link   string // to the token's page, with the button to revoke it
	Sees   excerpt
	Within excerpt // toolsets
}

// A madeToken is a new token. Only the answer to its form shows its text.
type madeToken struct{ ID, Agent, Text string }

// A tokenForm has the typed fields of a new token.
type tokenForm struct {
	Name, Servers, Toolsets, Days string
	Tiers                         map[string]bool
	Admin                         bool
}

// maxGrantRows limits the grants of a revoked token that a page lists.
const maxGrantRows = 10

// formOf returns the typed fields, or the defaults.
func formOf(typed url.Values) tokenForm {
	f := tokenForm{
		Name: typed.Get("name"), Servers: typed.Get("servers"), Toolsets: typed.Get("toolsets"), Days: cmp.Or(typed.Get("days"), "90"),
		Tiers: map[string]bool{}, Admin: typed.Get("admin") != "",
	}
	for _, tier := range typed["tier"] {
		f.Tiers[tier] = true
	}
	return f
}

// specOf returns the token that a form describes.
func specOf(typed url.Values) token.Spec {
	names := func(field string) []string {
		return strings.FieldsFunc(typed.Get(field), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	}
	// If the number is invalid, days is 0, which the registry reports as a fault.
	days, _ := strconv.Atoi(strings.TrimSpace(typed.Get("days")))
	return token.Spec{
		Name: strings.TrimSpace(typed.Get("name")), Servers: names("servers"), Tiers: typed["tier"], Toolsets: names("toolsets"),
		Admin: typed.Get("admin") != "", Days: min(days, 1000),
	}
}

// tokens shows the agent tokens.
func (c *Console) tokens(w http.ResponseWriter, r *http.Request) {
	p := &tokensPage{Form: formOf(lateOf(r))}
	if id := r.URL.Query().Get("revoked"); id != "" {
		if t, err := c.o.Tokens.Store.Token(r.Context(), id); err == nil && !t.RevokedAt.IsZero() {
			p.Message = "token:" + t.Name + " is revoked. The gateway refuses the next request " +
				"with it, and the next request of each session that began with it."
			grants := c.o.Service.TokenGrants(r.Context(), t.Name)
			n := len(grants.Granted)
			grants.Granted = grants.Granted[:min(n, maxGrantRows)]
			p.Ended = &endedToken{"token:" + t.Name, grants, n}
		}
	}
	c.showTokens(w, r, http.StatusOK, p)
}

// showTokens completes and writes a page of the tokens: valid tokens first, by name.
func (c *Console) showTokens(w http.ResponseWriter, r *http.Request, status int, p *tokensPage) {
	all, err := c.o.Tokens.Store.Tokens(r.Context())
	if err != nil && p.Made == nil { // the page must show a new token even if the list fails
		c.failed(w, r, "tokens", err)
		return
	}
	judge := c.o.Tokens.StatusAt(r.Context())
	if standing, ok := judge.KeySummary(all); ok && (standing.Previous.ID != "" || standing.Void > 0) {
		p.Keys = &standing
	}
	key := func(t token.Token) string {
		over := "0 "
		if judge.Status(t) != token.Live {
			over = "1 "
		}
		return over + t.Name + " " + t.ID
	}
	slices.SortFunc(all, func(a, b token.Token) int { return strings.Compare(key(a), key(b)) })
	paging := decide.Paging{Limit: maxRows, After: r.URL.Query().Get("after")}
	page, next, err := decide.Cut(paging, "token-rows", all, key)
	if err != nil {
		c.failed(w, r, "tokens", err)
		return
	}
	root := rootOf(r)
	for _, t := range page {
		p.Tokens = append(p.Tokens, tokenRowOf(root, t, judge))
	}
	p.pager = pagerOf(root+"admin/tokens", url.Values{}, "", next)
	p.Title, p.Here = "Agent tokens", "tokens"
	c.render(w, r, status, "tokens", p)
}

// tokenRowOf returns the row of a token.
func tokenRowOf(root string, t token.Token, judge token.StatusView) tokenRow {
	link := root + "admin/tokens/" + url.PathEscape(t.ID) + "/revoke"
	names := func(list []string) excerpt { return noteOf(strings.Join(list, ", "), link) }
	return tokenRow{
		t, judge.Status(t), judge.KeyStatus(t), link, names(t.Servers), names(t.Toolsets),
	}
}

// makeToken makes the token of a form. It answers with the page that shows the token's text,
// because a redirect would have the text in its address.
func (c *Console) makeToken(w http.ResponseWriter, r *http.Request) {
	made, problem, err := c.createToken(r, specOf(r.PostForm))
	switch {
	case err != nil:
		c.failed(w, r, "make token", err)
	case problem != "":
		p := &tokensPage{Form: formOf(r.PostForm)}
		p.Problem = problem
		c.showTokens(w, r, http.StatusUnprocessableEntity, p)
	default:
		c.showTokens(w, r, http.StatusCreated, &tokensPage{Form: formOf(nil), Made: made})
	}
}

// createToken makes a token on behalf of the caller. The problem says what is wrong with the form.
func (c *Console) createToken(r *http.Request, w token.Spec) (made *madeToken, problem string, err error) {
	t, text, err := c.o.Tokens.Make(r.Context(), callerOf(r.Context()).Name, w)
	if fault, ok := errors.AsType[token.FaultError](err); ok {
		return nil, "No token was made. " + sentence(strings.ReplaceAll(fault.Error(), "\n", "; ")), nil
	}
	if err != nil {
		return nil, "", err
	}
	return &madeToken{t.ID, "token:" + t.Name, text.Reveal()}, "", nil
}

// A revokePage asks to confirm a revocation.
type revokePage struct {
	Page
	Token tokenRow
	Own   bool // the token made this session
}

// askToRevoke asks to confirm a revocation.
func (c *Console) askToRevoke(w http.ResponseWriter, r *http.Request) {
	t, err := c.o.Tokens.Store.Token(r.Context(), r.PathValue("id"))
	if err != nil {
		c.tokenFailed(w, r, err)
		return
	}
	session := callerOf(r.Context()).session
	p := &revokePage{Page: Page{Title: "Revoke token:" + t.Name, Here: "tokens"}}
	p.Token = tokenRowOf(rootOf(r), t, c.o.Tokens.StatusAt(r.Context()))
	p.Own = session != nil && session.Token == t.ID
	c.render(w, r, http.StatusOK, "revoke", p)
}

// revokeToken revokes a token.
func (c *Console) revokeToken(w http.ResponseWriter, r *http.Request) {
	t, err := c.o.Tokens.Revoke(r.Context(), callerOf(r.Context()).Name, r.PathValue("id"))
	if err != nil {
		c.tokenFailed(w, r, err)
		return
	}
	redirectTo(w, http.StatusSeeOther, "../../tokens?revoked="+url.QueryEscape(t.ID))
}

// tokenFailed answers after an error about a token.
func (c *Console) tokenFailed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, token.ErrNotFound):
		c.problem(w, r, http.StatusNotFound, "There is no token with this id.")
	case errors.Is(err, token.ErrConflict):
		c.problem(w, r, http.StatusConflict, "Somebody else changed the token at the same time, so you changed nothing. Look at the list again.")
	default:
		c.failed(w, r, "token", err)
	}
}
