package identity

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Tokens accepts the gateway's own agent tokens. Each request reads the token from the store, so a
// revocation counts from the next request on, in every process.
type Tokens struct {
	Store *token.Store
	Keys  *token.KeyRing
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: none

	// Bootstrap is the SHA-256, as hex, of a token that may use only the admin API, to make the
	// first tokens. The store does not know it. "": none.
	Bootstrap string
}

// TokenAgent returns the id of the agent of a token with this name. Two tokens with the same name
// belong to the same agent, so that one can replace the other.
func TokenAgent(name string) string { return tokenPrefix + name }

// BootstrapAgent is the agent id of the bootstrap token. No token in the store has this agent id,
// because [TokenAgent] adds a prefix.
const BootstrapAgent = "bootstrap"

// storeTime is how long a request waits for the store.
const storeTime = 5 * time.Second

// bootstrap returns the agent of the bootstrap token, if text is that token.
func (k *Tokens) bootstrap(text secret.Text) (Agent, bool) {
	if !token.SameHash(k.Bootstrap, token.Digest(text)) {
		return Agent{}, false
	}
	return Agent{ID: BootstrapAgent, Way: WayToken, Rights: Everything()}, true
}

// Find returns the token of a text, even if it is expired or revoked. The error is an [*Error] if
// the store cannot answer.
func (k *Tokens) Find(ctx context.Context, text secret.Text) (token.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	t, err := k.Keys.Find(ctx, k.Store, text, k.now())
	if err != nil && !errors.Is(err, token.ErrNotFound) {
		return token.Token{}, &Error{Kind: Unavailable, Err: err}
	}
	return t, err
}

func (k *Tokens) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// lookUp reads a token from the store.
func (k *Tokens) lookUp(ctx context.Context, text secret.Text) (Agent, error) {
	t, err := k.Find(ctx, text)
	if err != nil {
		return Agent{}, err
	}
	if !t.Live(k.now()) {
		return Agent{}, errors.New("agent token " + t.ID + " is expired or revoked")
	}
	a, err := tokenAgent(t)
	if err != nil {
		return Agent{}, err
	}
	if t.Untouched(k.now()) {
		k.touch(ctx, t.ID, k.now())
	}
	return a, nil
}

// touch records the use. If that fails, the request continues.
func (k *Tokens) touch(ctx context.Context, id string, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := k.Store.TouchToken(ctx, id, now); err != nil && k.Log != nil {
		k.Log.LogAttrs(ctx, slog.LevelWarn, "use of an agent token not noted", slog.String("token", id), slog.Any("error", err))
	}
}

func tokenAgent(t token.Token) (Agent, error) {
	a := Agent{
		ID: TokenAgent(t.Name), Way: WayToken, Servers: t.Servers,
		Claims: map[string]any{claimToken: t.Name},
	}
	if t.Admin {
		a.Rights = Everything()
	}
	if len(t.Toolsets) > 0 {
		a.Toolsets = t.Toolsets
	}
	for _, name := range t.Tiers {
		tier, err := tool.ParseTier(name)
		if err != nil {
			return Agent{}, err
		}
		a.Tiers = append(a.Tiers, tier)
	}
	return a, nil
}
