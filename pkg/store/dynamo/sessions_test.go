package dynamo_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/pkg/session/sessiontest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/emulator"
)

// TestSessions runs against the table that infra/data.yaml makes.
func TestSessions(t *testing.T) {
	endpoint := emulator.Start(t)
	table := tables(endpoint, "sessions")
	t.Run("the store keeps the promises", func(t *testing.T) {
		sessiontest.Run(t, func(t *testing.T) session.Store {
			return dynamo.NewSessions(client(endpoint, http.DefaultTransport), table(t), nil)
		})
	})
	k := session.Key{Server: "browser", URL: "https://browser.example.com/mcp", Owner: session.Owner{Agent: "a"}}
	s := session.Session{ID: secret.New("x"), Version: "2025-11-25", Expires: time.Now().Add(time.Hour)}
	t.Run("a write is kept although its answer is lost", func(t *testing.T) {
		transport := new(emulator.Lossy)
		st := dynamo.NewSessions(client(endpoint, transport), table(t), nil)
		transport.LoseNext()
		if _, err := st.Put(t.Context(), k, s, secret.Text{}); err != nil {
			t.Errorf("Put = %v", err)
		}
		transport.LoseNext()
		if err := st.Delete(t.Context(), k, s); err != nil {
			t.Errorf("Delete = %v", err)
		}
	})
	t.Run("the table removes what expired", func(t *testing.T) {
		// The emulator leaves this one out.
		data, err := os.ReadFile(template)
		if err != nil || !strings.Contains(string(data), "TimeToLiveSpecification: {AttributeName: expires_at, Enabled: true}") {
			t.Errorf("%s has no time to live on expires_at (%v)", template, err)
		}
	})
}
