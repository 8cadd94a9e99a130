package toolset_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// A scenario is a random gateway with one agent, and the names that a request to it can have.
type scenario struct {
	*rand.Rand
	universe toolset.Universe
	cfg      *config.Config
	bound    *toolset.Bound
	agent    identity.Agent
}

// newScenario makes a gateway of up to 4 servers of up to 5 tools, so that sets of every kind meet.
func newScenario(t *testing.T, seed uint64) *scenario {
	t.Helper()
	w := &scenario{Rand: rand.New(rand.NewPCG(seed, 1)), cfg: &config.Config{Toolsets: map[string][]string{}}}
	for s := range 1 + w.IntN(4) {
		server := fmt.Sprint("s", s)
		w.universe.Servers = append(w.universe.Servers, toolset.Server{Name: server, Loaded: true})
		for i := range w.IntN(6) {
			w.universe.Tools = append(w.universe.Tools, toolset.Tool{ID: tool.ID{Server: server, Name: fmt.Sprint("t", i)}, ReadOnly: w.IntN(2) == 0})
		}
	}
	for i := range w.IntN(4) {
		w.cfg.Toolsets[fmt.Sprint("g", i)] = w.some(w.entries(), 3)
	}
	w.cfg.Tools = config.Tools{
		Toolsets: w.some(append(w.groups(), "all"), 2), Enabled: w.some(w.entries(), 3),
		Disabled: w.some(w.entries(), 2), ReadOnly: w.IntN(5) == 0,
	}
	if len(w.cfg.Tools.Toolsets)+len(w.cfg.Tools.Enabled) == 0 {
		w.cfg.Tools.Toolsets = []string{"all"}
	}
	w.agent = identity.Agent{ID: "a", Servers: []string{"*"}}
	if w.IntN(2) == 0 {
		w.agent.Servers = w.some([]string{"s0", "s1", "s2", "s3"}, 3)
	}
	if w.IntN(3) == 0 {
		w.agent.Toolsets = append([]string{}, w.some(append(w.groups(), "all", "gone"), 2)...)
	}
	w.bound = toolset.Compile(w.cfg, w.universe)
	return w
}

// some picks up to n members of list, which may be empty.
func (w *scenario) some(list []string, n int) []string {
	var out []string
	for range w.IntN(n + 1) {
		if len(list) > 0 {
			out = append(out, list[w.IntN(len(list))])
		}
	}
	return out
}

// entries are what the operator can write: full names and whole servers.
func (w *scenario) entries() []string {
	var out []string
	for _, x := range w.universe.Tools {
		out = append(out, x.ID.String())
	}
	for _, s := range w.universe.Servers {
		out = append(out, s.Name+":*")
	}
	return out
}

// groups are the names of the toolsets.
func (w *scenario) groups() []string {
	var out []string
	for i := range len(w.cfg.Toolsets) {
		out = append(out, fmt.Sprint("g", i))
	}
	for _, s := range w.universe.Servers {
		out = append(out, s.Name)
	}
	return out
}

// An input is one request: the names in its lists. nil is a header that is missing.
type input struct {
	path                     string
	toolsets, tools, exclude []string
	readOnly, lenient        bool
}

// input makes a request of names that exist, that do not, and that the agent may not know.
func (w *scenario) input() input {
	names := append(w.entries(), "s0:nope", "nope", "t0", "t1", "s9:t0")
	groups := append(w.groups(), "all", "default", "nope", "G0", "S1")
	in := input{readOnly: w.IntN(4) == 0, lenient: w.IntN(2) == 0}
	if w.IntN(3) == 0 {
		in.path = groups[w.IntN(len(groups))]
	}
	if w.IntN(2) == 0 {
		in.toolsets = append([]string{}, w.some(groups, 3)...)
	}
	if w.IntN(2) == 0 {
		in.tools = append([]string{}, w.some(names, 3)...)
	}
	if w.IntN(2) == 0 {
		in.exclude = w.some(names, 3)
	}
	return in
}

func (in input) header() http.Header {
	h := http.Header{}
	if in.toolsets != nil {
		h.Add(toolsets, strings.Join(in.toolsets, ","))
	}
	if in.tools != nil {
		h.Add(tools, strings.Join(in.tools, ","))
	}
	if in.exclude != nil {
		h.Add(exclude, strings.Join(in.exclude, ","))
	}
	if in.readOnly {
		h.Add(readOnly, "true")
	}
	if in.lenient {
		h.Add(prefer, lenient)
	}
	return h
}

// ask returns the offered ids, and the error.
func (w *scenario) ask(t *testing.T, path string, h http.Header) ([]string, *toolset.Error) {
	t.Helper()
	if path != "" {
		path = "/x/" + path
	}
	sel, e := choose(t, w.bound, w.agent, path, h)
	return strings.Fields(offered(w.universe, sel)), e
}

// forAll runs a property on many requests to many gateways.
func forAll(t *testing.T, property func(t *testing.T, w *scenario, in input)) {
	t.Helper()
	for seed := range uint64(300) {
		w := newScenario(t, seed)
		for range 20 {
			in := w.input()
			property(t, w, in)
			if t.Failed() {
				t.Fatalf("seed %d: %+v\nconfig %+v\nagent %+v", seed, in, w.cfg, w.agent)
			}
		}
	}
}

func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// Without the hidden tools, every answer is the same, byte for byte.
func TestSelectOutOfScope(t *testing.T) {
	forAll(t, func(t *testing.T, w *scenario, in input) {
		got, err := w.ask(t, in.path, in.header())
		without := *w
		without.universe.Tools = slices.DeleteFunc(slices.Clone(w.universe.Tools), func(x toolset.Tool) bool {
			return !slices.Contains(w.agent.Servers, "*") && !slices.Contains(w.agent.Servers, x.ID.Server)
		})
		without.bound = toolset.Compile(w.cfg, without.universe)
		bare, errBare := without.ask(t, in.path, in.header())
		if diff := cmp.Diff(got, bare); diff != "" {
			t.Errorf("tools out of scope show in the selection:\n%s", diff)
		}
		if diff := cmp.Diff(err, errBare); diff != "" {
			t.Errorf("tools out of scope show in the error:\n%s", diff)
		}
	})
}

// While a server is down, no tool is offered that is not offered when the server is up.
func TestSelectServerDown(t *testing.T) {
	forAll(t, func(t *testing.T, w *scenario, in input) {
		got, err := w.ask(t, in.path, in.header())
		down := *w
		down.universe.Servers = slices.Clone(w.universe.Servers)
		gone := w.IntN(len(down.universe.Servers))
		down.universe.Servers[gone] = toolset.Server{Name: w.universe.Servers[gone].Name, Transient: true}
		down.universe.Tools = slices.DeleteFunc(slices.Clone(w.universe.Tools), func(x toolset.Tool) bool {
			return x.ID.Server == down.universe.Servers[gone].Name
		})
		down.bound = toolset.Compile(w.cfg, down.universe)
		less, errDown := down.ask(t, in.path, in.header())
		if err == nil && !ambiguous(in) && !contains(got, less) {
			t.Errorf("with a server down %q is offered, with it up %q", less, got)
		}
		if err == nil && errDown != nil && errDown.UnknownTools != nil && !ambiguous(in) {
			t.Errorf("a name became unknown because a server is down: %v", errDown)
		}
	})
}

// ambiguous reports whether a list has a bare name: which tool it means may depend on
// what has loaded.
func ambiguous(in input) bool {
	return slices.ContainsFunc(slices.Concat(in.tools, in.exclude), func(name string) bool { return !strings.Contains(name, ":") })
}
