package connection_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A meter counts the uses of a key.
type meter struct {
	connection.LocalKey
	wraps, unwraps int
}

func (m *meter) Wrap(ctx context.Context, key []byte, about string) ([]byte, error) {
	m.wraps++
	return m.LocalKey.Wrap(ctx, key, about)
}

func (m *meter) Unwrap(ctx context.Context, wrapped []byte, about string) ([]byte, error) {
	m.unwraps++
	return m.LocalKey.Unwrap(ctx, wrapped, about)
}

// want checks the uses since the last check.
func (m *meter) want(t *testing.T, what string, wraps, unwraps int) {
	t.Helper()
	if m.wraps != wraps || m.unwraps != unwraps {
		t.Errorf(
			"%s: %d wraps and %d unwraps, want %d and %d",
			what,
			m.wraps,
			m.unwraps,
			wraps,
			unwraps,
		)
	}
	m.wraps, m.unwraps = 0, 0
}

// Each use of the key costs a request to KMS. A call with a cached connection does not use the key.
// A refresh uses it once.
func TestUsesOfTheKey(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	key := &meter{
		LocalKey: connection.LocalKey{
			Read: func() ([]byte, error) { return make([]byte, 32), nil },
		},
	}
	service := func() *connection.Service {
		return connection.New(connection.Options{
			Docs: f.docs, Keys: key, Table: f.table, Now: f.clock, HTTP: http.DefaultClient,
			Jitter: func(time.Duration) time.Duration { return 0 },
		})
	}
	first := service()
	f.signIn(t, first)
	key.want(t, "a sign-in", 3, 1) // the registration, the flow and the connection
	f.token(t, first)
	key.want(t, "a call after the sign-in", 0, 0)
	other := service()
	f.token(t, other)
	key.want(t, "a call of another process", 0, 1)
	f.token(t, other)
	_, _, err := other.State(t.Context(), f.server)
	require.OK(t, err)
	key.want(t, "a call with a cached connection", 0, 0)
	f.wait(5 * time.Minute)
	f.token(t, other)
	key.want(t, "a call after 5 minutes", 0, 1)
	f.wait(54*time.Minute - 5*time.Minute)
	f.token(t, other)
	key.want(t, "a call before the refresh", 0, 1)
	f.wait(2 * time.Minute)
	f.token(t, other)
	key.want(t, "a refresh", 1, 0)
	f.token(t, other)
	key.want(t, "a call after the refresh", 0, 0)
}
