package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A setup contains the servers of both builds, and the names that the script uses.
type setup struct {
	script
	fleet *fleettest.Fleet
	items fleettest.Items
	well  []string // healthy servers
	tools []string // the id of the first tool of each healthy server
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	catalog := fleettest.MadeUp(24, 240)
	if os.Getenv("PORTCULLIS_DATA") != "" {
		catalog = local.Tools(t)
	}
	s := &setup{fleet: fleettest.Start(t, catalog)}
	s.items = s.fleet.ListItems()
	f, member := s.fleet, func(raw json.RawMessage, name string) string {
		return rawjson.Text(rawjson.Get(raw, name))
	}
	trouble := []string{f.Denied, f.Failing, f.Slow, s.items.Server}
	var ids, vocabulary []string
	for _, server := range slices.Sorted(maps.Keys(catalog)) {
		for i, raw := range f.Now[server] {
			name := member(raw, "name")
			ids = append(ids, server+":"+name)
			vocabulary = append(vocabulary, strings.Fields(member(raw, "description"))...)
			vocabulary = append(vocabulary, strings.Split(name, "_")...)
			if i == 0 && !slices.Contains(trouble, server) {
				s.well, s.tools = append(s.well, server), append(s.tools, server+":"+name)
			}
		}
	}
	s.rng = rand.New(rand.NewPCG(30, 1))
	s.readParts(t)
	s.nameWords(ids, append(f.Waiting(), s.tools[:15]...), queries(t, vocabulary))
	return s
}

// queries returns queries of agents: the queries of the public sets, and pairs of words.
func queries(t *testing.T, vocabulary []string) (all []string) {
	t.Helper()
	folder := filepath.Join(os.Getenv("PORTCULLIS_DATA"), "retrieval-public")
	sets, err := filepath.Glob(filepath.Join(folder, "*", "queries.json"))
	require.OK(t, err)
	for _, path := range sets {
		data, err := os.ReadFile(path)
		require.OK(t, err)
		set := require.JSON[struct{ Queries []struct{ Query string } }](t, data)
		for _, q := range set.Queries {
			all = append(all, q.Query)
		}
	}
	for i := range vocabulary {
		all = append(all, vocabulary[i]+" "+vocabulary[(i*7+3)%len(vocabulary)])
	}
	return slices.DeleteFunc(all, func(q string) bool { return strings.ContainsAny(q, "<>|$") })
}

// nameWords sets the values of the script's words.
func (s *setup) nameWords(ids, marked, queries []string) {
	pick, count, i := s.pick, 0, s.items
	var prompts, uris []string
	items := append(i.Waiting(), slices.Concat(i.Prompts, i.Resources)...)
	for _, id := range append(items, i.Off, "nobody:prompt:x", "nobody:resource:file:///none") {
		if server, name, ok := strings.Cut(id, ":prompt:"); ok {
			prompts = append(prompts, server+"__"+name)
		} else if _, uri, ok := strings.Cut(id, ":resource:"); ok {
			uris = append(uris, uri, fleettest.URI)
		}
	}
	often := slices.Repeat(marked, len(ids)/len(marked))
	s.words = map[string]func() string{
		"era":   pick(mcp.VersionModern, mcp.VersionLegacy, mcp.Version20250618),
		"agent": pick("all", "all", "all", "reader", "narrow", "tidy"),
		"words": func() string { q := rawjson.Quote(pick(queries...)()); return string(q[1 : len(q)-1]) },
		"url":   func() string { return url.QueryEscape(pick(queries...)()) },
		"n":     func() string { count++; return fmt.Sprint(count) },
		"id":    pick(slices.Concat(ids, often, []string{"nobody:nothing"})...),
		"new":   pick(s.fleet.New...), "marked": pick(marked...),
		"server": pick(slices.Sorted(maps.Keys(s.fleet.Now))...), "home": pick(i.Server),
		"prompt": pick(prompts...), "uri": pick(uris...),
		"direct": func() string { return strings.Replace(s.expand("<id>"), ":", "__", 1) },
	}
	for n := range 15 {
		s.words[fmt.Sprint("new", n)] = pick(s.fleet.New[n])
		s.words[fmt.Sprint("server", n)] = pick(s.well[n])
		s.words[fmt.Sprint("tool", n)] = pick(s.tools[n])
	}
}

// failCalls makes the calls of some servers fail, each with another fault.
func (s *setup) failCalls() {
	for i, fault := range []upstreamtest.Fault{
		upstreamtest.RPC(-32000, "the disk is full"), upstreamtest.HTML(), upstreamtest.BadJSON(),
		upstreamtest.Status(http.StatusInternalServerError, "oops"),
		upstreamtest.Status(http.StatusUnauthorized, "who are you"),
		upstreamtest.Result(`{"content":[{"type":"text","text":"no such row"}],"isError":true}`),
	} {
		s.fleet.Servers[s.well[i]].FailOn("tools/call", -1, fault)
	}
}

// configure writes the config and the policy of a gateway.
func (s *setup) configure(t *testing.T, dir, mode string) {
	t.Helper()
	data := s.fleet.Config(s.expand(`,
"toolsets": {"tidy": ["<tool0>", "<tool6>", "<server7>:*", "<home>:prompt:*"]},
"tools": {"disabled": ["<tool6>"], "confirm": ["<tool7>"]},
"words": {"<server8>:*": ["brand new words"]},
"gateway": {"requests": true, "mode": "`) + mode + `"}`)
	_, name, _ := strings.Cut(s.tools[8], ":")
	for i, more := range []string{
		`"disabled_tools": ["` + name + `"]`, `"approval": "manual"`, `"enabled": false`,
	} {
		server := fmt.Sprintf("%q: {", s.well[8+i])
		data = strings.Replace(data, server, server+more+", ", 1)
	}
	programtest.WriteConfig(t, dir, data)
	programtest.WritePolicy(t, dir, s.expand(`@id("not-here")
@reason("This goes through the platform team.")
@contact("platform@example.com")
forbid (principal, action, resource == Tool::"<tool11>");
forbid (principal == Agent::"token:narrow", action, resource)
when { resource.tier == "destructive" };
`))
}
