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

// The endpoints that are not one toolset's.
const (
	endpoint         = "/mcp"
	endpointReadOnly = "/mcp/readonly"
	endpointToolset  = "/mcp/x/"
)

// Endpoints returns the paths at which agents can ask, the widest first: one for each toolset and
// each enabled server beside those that always are.
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

// A Guide is how one client is told of one endpoint.
type Guide struct {
	connect.Guide
	URL     string       `json:"url"`
	Path    string       `json:"path" doc:"of the endpoint"`
	Auth    connect.Auth `json:"auth" doc:"how the client comes in"`
	Servers []string     `json:"servers" nullable:"false" doc:"of which an agent finds something there"`
	Toolset string       `json:"toolset,omitempty" doc:"that the path names"`
}

// Guide returns how a client is told of one of the [Service.Endpoints]. path and by may be "", for
// the widest one and the usual way.
func (d *Service) Guide(ctx context.Context, g *connect.Gateway, client, path string, by connect.Auth) (Guide, error) {
	out := Guide{Path: cmp.Or(path, endpoint)}
	if !slices.ContainsFunc(connect.Clients(), func(c connect.Client) bool { return c.ID == client }) {
		return out, &Error{Status: http.StatusNotFound, Detail: "there is no guide for this client"}
	}
	if err := d.findAt(ctx, &out); err != nil {
		return out, err
	}
	endpoint, err := g.At(out.Path, by)
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

// findAt sets what agents find at the path of g.
func (d *Service) findAt(ctx context.Context, g *Guide) error {
	view := d.View(ctx)
	request, err := toolset.ParseRequest(strings.TrimPrefix(g.Path, endpoint), http.Header{})
	var selection toolset.Selection
	if err == nil {
		selection, err = view.Select(request)
	}
	if e, ok := errors.AsType[*toolset.Error](err); ok {
		return &Error{Status: http.StatusUnprocessableEntity, Detail: "nobody can ask at this path: " + e.Message}
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
