package unlock_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/roletest"
)

// A place is where the gateway runs.
type place struct {
	name    string
	prepare func(t *testing.T) (open func(t *testing.T) *world)
}

var places = []place{{"bolt", onBolt}, {"DynamoDB", onDynamo}}

// A program is the gateway as one process with a bolt file.
type program struct{ *programtest.Program }

// onBolt runs `portcullis serve`.
func onBolt(*testing.T) func(*testing.T) *world { return openBolt }

func openBolt(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, w.config())
	env := w.settings()
	env["PORTCULLIS_SEAL_KEY"] = sealKey
	p := programtest.StartWith(t, programtest.Access{Env: env, Admin: w.admin()}, dir)
	w.Client, w.place, w.width = p.Client, program{p}, 1000
	w.issuer.Client("console", "", w.URL+"/admin/login/callback")
	w.ready()
	return w
}

func (p program) sync(t *testing.T) { t.Helper(); p.Sync() }

// requests stops the program until close, because only one process can open the bolt file.
func (p program) requests(t *testing.T) (*request.Store, func()) {
	t.Helper()
	p.Stop()
	s, err := bolt.Open(filepath.Join(p.Dir, "approvals.db"), nil)
	require.OK(t, err)
	return request.NewStore(s, nil), func() {
		require.OK(t, s.Close())
		p.Start()
	}
}

// functions is the gateway as Lambda functions.
type functions struct {
	*lambdatest.Stack
	syncer *lambdatest.Function
}

// onDynamo runs the built functions.
func onDynamo(t *testing.T) func(*testing.T) *world {
	t.Helper()
	b := built{emulator.Start(t), lambdatest.Build(t, "../..", "mcp", "sync", "admin"), roletest.Load(t)}
	return b.open
}

// A built contains the parts that the gateways on an emulator share.
type built struct {
	endpoint string
	programs string
	roles    map[string]roletest.Role
}

// open runs the functions behind one address, with their rights from the template. The sync
// function receives the events that the other functions send.
func (b built) open(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	proxy := lambdatest.NewProxy(t, b.endpoint)
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
	f := functions{Stack: lambdatest.NewStack(t, b.endpoint, b.programs, env)}
	proxy.Enforce(b.roles)
	mcp, admin = f.Front(t), lambdatest.NewFront(t, func() *lambdatest.Function { return f.Start(t, "admin") })
	f.syncer = f.Start(t, "sync")
	proxy.Serve("portcullis-sync", func(payload []byte) { f.syncer.Invoke(payload) })
	w.Client, w.place, w.width = agenttest.Client{T: t, URL: front.URL, Admin: w.admin()}, f, 12 // environments of a function
	w.issuer.Client("console", "", w.URL+"/admin/login/callback")
	f.Configure(w.config())
	f.sync(t)
	w.ready()
	return w
}

func (f functions) sync(t *testing.T) {
	t.Helper()
	if a := f.syncer.Invoke([]byte(`{}`)); a.Failed {
		t.Fatalf("sync: %s", a.Payload)
	}
}

func (f functions) requests(t *testing.T) (*request.Store, func()) {
	t.Helper()
	table := dynamo.New(dynamodb.NewFromConfig(emulator.Config(f.Endpoint)), f.Env["PORTCULLIS_TABLE"], nil)
	return request.NewStore(table, nil), func() {}
}
