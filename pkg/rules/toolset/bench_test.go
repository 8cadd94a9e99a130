package toolset_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// large returns 10,000 tools of 100 servers, and a config with named toolsets.
func large() (toolset.Universe, *config.Config) {
	var u toolset.Universe
	cfg := &config.Config{Toolsets: map[string][]string{}, Tools: config.Tools{Toolsets: []string{"all"}, Disabled: []string{"s1:t1"}}}
	for s := range 100 {
		server := fmt.Sprintf("s%02d", s)
		u.Servers = append(u.Servers, toolset.Server{Name: server, Loaded: true})
		for i := range 100 {
			u.Tools = append(u.Tools, toolset.Tool{ID: tool.ID{Server: server, Name: fmt.Sprintf("t%02d_%d", i, s)}, ReadOnly: i%2 == 0})
		}
		group := fmt.Sprintf("g%02d", s/10)
		cfg.Toolsets[group] = append(cfg.Toolsets[group], server+":*")
	}
	return u, cfg
}

func BenchmarkCompile10000(b *testing.B) {
	u, cfg := large()
	b.ReportAllocs()
	for b.Loop() {
		toolset.Compile(cfg, u)
	}
}

// BenchmarkCompileManyServers compiles 100,000 tools of 8,400 servers. Each server is a toolset.
func BenchmarkCompileManyServers(b *testing.B) {
	var u toolset.Universe
	for s := range 8400 {
		server := fmt.Sprintf("s%04d", s)
		u.Servers = append(u.Servers, toolset.Server{Name: server, Loaded: true})
		for i := range 12 {
			u.Tools = append(u.Tools, toolset.Tool{ID: tool.ID{Server: server, Name: fmt.Sprintf("t%02d_%d", i, s)}})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		toolset.Compile(&config.Config{}, u)
	}
}

func BenchmarkSelect10000(b *testing.B) {
	u, cfg := large()
	bound := toolset.Compile(cfg, u)
	for _, bc := range []struct {
		name   string
		agent  identity.Agent
		header http.Header
	}{
		{"nothing asked", everyone(), nil},
		{"three servers", everyone(), headers(toolsets, "s01,s02,s03", exclude, "s01:t01_1", readOnly, "true")},
		{"an agent with toolsets", agent("s01 s02 s03 s04", "g00"), headers(toolsets, "s01", tools, "s02:t01_2,t02_3")},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if sel, e := choose(b, bound, bc.agent, "", bc.header); e != nil || sel.Tools.Len() == 0 {
					b.Fatalf("%d tools, %v", sel.Tools.Len(), e)
				}
			}
		})
	}
}
