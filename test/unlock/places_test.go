package unlock_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// openBolt runs `portcullis serve` with a bolt file.
func openBolt(t *testing.T) *world {
	t.Helper()
	w, _ := openProgram(t)
	return w
}

func openProgram(t *testing.T) (*world, *programtest.Program) {
	t.Helper()
	w := newWorld(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, w.config())
	p := programtest.StartWith(t, programtest.Access{Env: w.settings(), Admin: w.admin()}, dir)
	w.Client = p.Client
	w.issuer.Client("console", "", w.URL+"/admin/login/callback")
	w.ready()
	return w, p
}

// openDynamo runs the built functions behind one address, with their rights from the template. The
// sync function receives the events that the other functions send.
func openDynamo(t *testing.T) *world {
	t.Helper()
	endpoint, roles := emulator.Start(t), roletest.Load(t)
	programs := lambdatest.Build(t, "../..", "mcp", "sync", "admin")
	w := newWorld(t)
	proxy := lambdatest.NewProxy(t, endpoint)
	var mcp, admin *lambdatest.Front
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/admin") {
			admin.ServeHTTP(rw, r)
		} else {
			mcp.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	env := w.settings()
	maps.Copy(env, map[string]string{
		"AWS_ENDPOINT_URL": proxy.URL, "PORTCULLIS_BASE_URL": front.URL, "PORTCULLIS_ALLOW_NETS": "127.0.0.0/8,::1/128",
	})
	stack := lambdatest.NewStack(t, endpoint, programs, env)
	proxy.Enforce(roles)
	stack.Configure(w.config())
	stack.Sync(t)
	mcp = stack.Front(t)
	admin = lambdatest.NewFront(t, func() *lambdatest.Function { return stack.Start(t, "admin") })
	syncer := stack.Start(t, "sync")
	proxy.Serve("portcullis-sync", func(payload []byte) { syncer.Invoke(payload) })
	w.Client = agenttest.Client{T: t, URL: front.URL, Admin: w.admin()}
	w.issuer.Client("console", "", w.URL+"/admin/login/callback")
	w.ready()
	return w
}
