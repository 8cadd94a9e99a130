package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// registerSignIns adds the operations of sign-ins at servers.
func (a *api) registerSignIns(h huma.API) {
	errs := []int{
		http.StatusNotFound,
		http.StatusConflict,
		http.StatusUnprocessableEntity,
		http.StatusNotImplemented,
		http.StatusBadGateway,
	}
	start := post(
		"start-sign-in",
		"/admin/servers/{server}/sign-in",
		"Prepare a sign-in at a server; a person then opens the address at the issuer",
	)
	finish := post(
		"finish-sign-in",
		"/admin/sign-in",
		"Finish a sign-in with the query of the callback, and load the server",
	)
	end := post(
		"sign-out",
		"/admin/servers/{server}/sign-out",
		"Delete the gateway's connection of a server, and revoke its token at the issuer",
	)
	start.Errors, finish.Errors, end.Errors = errs, errs, errs
	serve(a, h, start, func(ctx context.Context, in *startSignInInput) (decide.SignInStart, error) {
		return a.service.StartSignIn(ctx, in.Server, in.Body)
	})
	serve(a, h, finish, func(ctx context.Context, in *finishSignInInput) (decide.SignedIn, error) {
		return a.service.FinishSignIn(ctx, in.Body.State, in.Body.Query)
	})
	serve(a, h, end, func(ctx context.Context, in *signOutInput) (decide.SignedOut, error) {
		return a.service.SignOut(ctx, in.Server)
	})
}

type startSignInInput struct {
	Server string `path:"server"`
	Body   decide.SignInQuery
}

type finishSignInInput struct {
	Body struct {
		State string `json:"state" maxLength:"32768" doc:"state from the answer to the start"`
		Query string `json:"query" maxLength:"8192" doc:"query of the callback, without the question mark"`
	}
}

type signOutInput struct {
	Server string `path:"server"`
}
