package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
)

// A Session is what an operator sees of a person's session in a browser.
type Session struct {
	ID      string    `json:"id" doc:"identifies the session in this API; nobody can sign in with it"`
	Actor   string    `json:"actor" doc:"name of the person in the audit"`
	Way     string    `json:"way" enum:"link,key,token,bootstrap,oidc" doc:"how the person signed in"`
	Browser string    `json:"browser,omitempty" doc:"name that the browser gives itself, shortened"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used" doc:"time of the last use, accurate to five minutes"`
	Expires time.Time `json:"expires" doc:"when the session ends if nobody uses it before"`
}

// registerSessions adds the operations on people's sessions, if people can sign in.
func (a *api) registerSessions(h huma.API) {
	if a.sessions == nil {
		return
	}
	serve(a, h, huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/admin/sessions", Summary: "List the sessions of signed-in browsers, by id",
	}, a.listSessions)
	serve(a, h, huma.Operation{
		OperationID: "revoke-session", Method: http.MethodPost, Path: "/admin/sessions/{id}/revoke",
		Summary: "End any person's session; every instance refuses its next request", Errors: []int{http.StatusNotFound},
	}, a.revokeSession)
}

type sessionsOutputBody struct {
	Sessions []Session `json:"sessions" nullable:"false"`
	decide.Next
}

func (a *api) listSessions(ctx context.Context, in *decide.Paging) (out sessionsOutputBody, err error) {
	all, err := a.sessions.All(ctx)
	if err != nil {
		return out, err
	}
	slices.SortFunc(all, func(x, y signin.Session) int { return strings.Compare(x.ID, y.ID) })
	page, next, err := decide.Cut(*in, "sessions", all, func(s signin.Session) string { return s.ID })
	out.Sessions, out.Next = make([]Session, len(page)), next
	for n, s := range page {
		out.Sessions[n] = sessionOf(s)
	}
	return out, err
}

type sessionInput struct {
	ID string `path:"id" maxLength:"128"`
}

func (a *api) revokeSession(ctx context.Context, in *sessionInput) (Session, error) {
	s, err := a.sessions.RevokeAny(ctx, in.ID)
	if errors.Is(err, signin.ErrNotFound) {
		return Session{}, problem(http.StatusNotFound, "no session has this id; it may have ended already")
	}
	if err == nil {
		a.service.RecordRevoked(ctx, s)
	}
	return sessionOf(s), err
}

func sessionOf(s signin.Session) Session {
	return Session{s.ID, s.Actor, s.Way, s.BrowserName(), s.Created, s.Used, s.Expires}
}
