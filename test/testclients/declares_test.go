package testclients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The capabilities that agent programs declare decide how the gateway reaches their users.
// docs/access-requests.md lists the result for each program. A test of the user's view would need a model.
func TestAgentsDeclare(t *testing.T) {
	path := findAgents(t)
	p := programtest.Start(t, t.TempDir(), "--demo")
	target, err := url.Parse(p.URL)
	require.OK(t, err)
	for id, want := range map[string]way{"claude-code": page, "codex": shows, "gemini": shows} {
		t.Run(id, func(t *testing.T) {
			heard := &listener{next: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
			front := httptest.NewServer(heard)
			defer front.Close()
			guide, err := connect.For(id, connect.Endpoint{URL: front.URL + "/mcp", Auth: connect.None})
			require.OK(t, err)
			a := &agent{t: t, program: p, guide: guide, home: t.TempDir(), project: t.TempDir(), path: path}
			a.write()
			looks[id](a)
			if got := heard.way(); len(heard.said) == 0 || got != want {
				t.Errorf("way %d, want %d; the client declares %+v", got, want, heard.said)
			}
		})
	}
}

// A declared contains what a client declares when it connects.
type declared struct {
	version string
	pages   bool // it can open pages
}

// A listener is a proxy in front of a gateway. It records what clients declare.
type listener struct {
	next http.Handler
	mu   sync.Mutex
	said []declared
}

// ServeHTTP implements [http.Handler].
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	type capabilities struct{ Elicitation struct{ URL json.RawMessage } }
	var m struct {
		Params struct {
			ProtocolVersion string
			Capabilities    capabilities
			Meta            struct {
				Version      string       `json:"io.modelcontextprotocol/protocolVersion"`
				Capabilities capabilities `json:"io.modelcontextprotocol/clientCapabilities"`
			} `json:"_meta"`
		}
	}
	l.mu.Lock()
	if json.Unmarshal(body, &m) == nil {
		switch p := m.Params; {
		case p.Meta.Version != "":
			l.said = append(l.said, declared{p.Meta.Version, p.Meta.Capabilities.Elicitation.URL != nil})
		case p.ProtocolVersion != "":
			l.said = append(l.said, declared{p.ProtocolVersion, p.Capabilities.Elicitation.URL != nil})
		}
	}
	l.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	l.next.ServeHTTP(w, r)
}

// way returns the way of the last client.
func (l *listener) way() way {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.said); n > 0 && l.said[n-1].pages {
		switch l.said[n-1].version {
		case mcp.VersionModern:
			return page
		case mcp.VersionLegacy:
			return fails
		}
	}
	return shows
}
