package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
)

// registerStops adds the operations of the emergency stop.
func (a *api) registerStops(h huma.API) {
	errs := []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusNotImplemented}
	serve(a, h, get("list-stops", "/admin/stop", "List the stops in mcp_config.json and by people, read from the store now"), bare(a.service.Stops))
	do := post("stop", "/admin/stop", "Stop everything, a server or an agent, from the next call in every process; existing stops stay as they are")
	undo := post("undo-stop", "/admin/stop/undo", "Undo one stop of a person, or all of them")
	do.Errors, undo.Errors = errs, errs
	serve(a, h, do, a.stop)
	serve(a, h, undo, a.undoStop)
}

type stopInput struct {
	Body struct {
		stop.Target
		Reason string `json:"reason" minLength:"1" maxLength:"256" doc:"one line; agents see it"`
	}
}

func (a *api) stop(ctx context.Context, in *stopInput) (decide.Stopped, error) {
	return a.service.Stop(ctx, in.Body.Target, in.Body.Reason)
}

type undoStopInput struct {
	Body struct {
		stop.Target
		Every bool `json:"every,omitempty" doc:"undo all stops by people; all undoes only the stop of everything"`
	}
}

func (a *api) undoStop(ctx context.Context, in *undoStopInput) (decide.Stopped, error) {
	if in.Body.Every && in.Body.Target == (stop.Target{}) {
		return a.service.UndoStops(ctx)
	}
	if in.Body.Every {
		return decide.Stopped{}, problem(http.StatusUnprocessableEntity, "nothing was undone: "+
			"send every, or one of all, server and agent")
	}
	return a.service.UndoStop(ctx, in.Body.Target)
}
