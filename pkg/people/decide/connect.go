package decide

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// The paths of the endpoints. The path of a toolset is endpointToolset and its name.
const (
	endpoint         = "/mcp"
	endpointReadOnly = "/mcp/readonly"
	endpointToolset  = "/mcp/x/"
)

// Endpoints returns the paths for agents, the widest first: the fixed ones, and one for each
// toolset and each enabled server.
func (d *Service) Endpoints(ctx context.Context) []string {
	out := []string{endpoint, endpointReadOnly}
	st := d.states.Load(ctx)
	if st.Config == nil {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(st.Config.Toolsets)) {
		out = append(out, endpointToolset+name)
	}
	for _, s := range d.View(ctx).Servers() {
		if s.Config.Enabled {
			out = append(out, endpointToolset+s.Config.Name)
		}
	}
	return out
}

// A Guide explains how to add one endpoint to one client.
type Guide struct {
	connect.Guide
	URL     string       `json:"url"`
	Path    string       `json:"path" doc:"path of the endpoint"`
	Auth    connect.Auth `json:"auth" doc:"how the client authenticates"`
	Servers []string     `json:"servers" nullable:"false" doc:"servers whose items the endpoint offers"`
	Toolset string       `json:"toolset,omitempty" doc:"toolset in the path"`
}

// Guide returns the guide of a client for one of the [Service.Endpoints]. An empty path selects the
// widest endpoint; an empty auth selects the usual way to authenticate.
func (d *Service) Guide(ctx context.Context, g *connect.Gateway, client, path string, auth connect.Auth) (Guide, error) {
	out := Guide{Path: cmp.Or(path, endpoint)}
	if !slices.ContainsFunc(connect.Clients(), func(c connect.Client) bool { return c.ID == client }) {
		return out, &Error{Status: http.StatusNotFound, Detail: "there is no guide for this client"}
	}
	if err := d.findAt(ctx, &out); err != nil {
		return out, err
	}
	endpoint, err := g.At(out.Path, auth)
	if errors.Is(err, connect.ErrNoAddress) {
		return out, &Error{Status: http.StatusServiceUnavailable, Detail: err.Error()}
	}
	if err == nil {
		out.URL, out.Auth = endpoint.URL, endpoint.Auth
		out.Guide, err = connect.For(client, endpoint)
	}
	if err != nil {
		return out, &Error{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	return out, nil
}

// findAt sets the servers and the toolset at the path of g.
func (d *Service) findAt(ctx context.Context, g *Guide) error {
	view := d.View(ctx)
	request, err := toolset.ParseRequest(strings.TrimPrefix(g.Path, endpoint), http.Header{})
	var selection toolset.Selection
	if err == nil {
		selection, err = view.Select(request)
	}
	if e, ok := errors.AsType[*toolset.Error](err); ok {
		return &Error{Status: http.StatusUnprocessableEntity, Detail: "this path serves nothing: " + e.Message}
	} else if err != nil {
		return err
	}
	found := map[string]bool{}
	for i := range selection.Tools.All() {
		found[view.ID(i).Server] = true
	}
	g.Servers = append([]string{}, slices.Sorted(maps.Keys(found))...)
	if name, ok := strings.CutPrefix(g.Path, endpointToolset); ok {
		g.Toolset = name
	}
	return nil
}
