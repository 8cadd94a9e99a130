package boot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

const (
	tokenKeySetting  = "PORTCULLIS_TOKEN_KEY"
	tokenDaysSetting = "PORTCULLIS_TOKEN_PREVIOUS_DAYS"

	// keyFilePrefix begins a setting that names a file instead of a key.
	keyFilePrefix = "file:"

	// maxTokenDays is the longest life of a token, and so the longest use of its key.
	maxTokenDays = int(token.MaxLife / (24 * time.Hour))
)

// readTokens sets p.Tokens, with the keys of the tokens' hashes. It fails if a key is invalid or
// missing. If a key is temporarily unreadable, it does not fail, and requests try again.
func (p *Program) readTokens(ctx context.Context) error {
	p.tokenOnce.Do(func() {
		if p.Stores.Tokens == nil {
			p.tokenErr = errors.New("there is no store for agent tokens")
			return
		}
		ring := token.NewKeyRing(p.tokenKeys, p.now, p.Log)
		if _, err := ring.Keys(ctx); err != nil && !errors.Is(err, errNotNow) {
			p.tokenErr = err
			return
		}
		p.Tokens = &identity.Tokens{Store: p.Stores.Tokens, Keys: ring, Bootstrap: p.Settings.Access.Bootstrap, Now: p.now, Log: p.Log}
	})
	return p.tokenErr
}

// errNotNow says that a key is temporarily unreadable. The settings may still be right.
var errNotNow = errors.New("it cannot be read now")

// tokenKeys reads the keys of the agent tokens' hashes from the place that the setting names.
func (p *Program) tokenKeys(ctx context.Context) (token.Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	a := p.Settings.Access
	var v secret.Versions
	var err error
	path, ok := strings.CutPrefix(a.TokenKey.Reveal(), keyFilePrefix)
	if ok {
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.folder, path)
		}
		v, err = secret.ReadFile(path)
	} else if v, err = readVersions(ctx, p.secrets, a.TokenKey, splitTokenKeys); err != nil && !errors.Is(err, secret.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errNotNow, err)
	}
	var keys token.Keys
	if err == nil {
		keys, err = token.ReadKeys(v, a.PreviousDays)
		if err != nil && ok {
			err = fmt.Errorf("%s: %w: restore the key from a copy; with another key, all agent tokens are invalid", path, err)
		}
	}
	if err != nil {
		return token.Keys{}, fmt.Errorf("%s: %w", tokenKeySetting, err)
	}
	return keys, nil
}

// tokens reads the settings of agent tokens.
func (r *reader) tokens(a *Access) {
	key := r.getenv(tokenKeySetting)
	a.TokenKey = secret.New(key)
	_, referred := secret.Reference(key)
	if !referred && !strings.HasPrefix(key, keyFilePrefix) && len(key) < token.MinKey {
		r.fault("%s: want %d random bytes or more, such as `openssl rand -hex 32` prints, and "+
			"after a comma the previous key", tokenKeySetting, token.MinKey)
	}
	a.PreviousDays = maxTokenDays
	if r.getenv(tokenDaysSetting) != "" {
		a.PreviousDays = r.number(tokenDaysSetting, 0, maxTokenDays, "want for how many days "+
			"the gateway accepts tokens of the previous key, %d to %d")
	}
	a.TrustedProxies = r.number("PORTCULLIS_TRUSTED_PROXIES", 0, maxProxies, "want the number "+
		"of proxies in front of the gateway, %d to %d")
}

// splitTokenKeys returns the keys in a setting. A comma that is not between two whole keys is part
// of the key, because older settings contain only one key.
func splitTokenKeys(setting string) secret.Versions {
	v, _ := secret.SplitVersions(setting)
	if min(len(v.Current.Text.Reveal()), len(v.Previous.Text.Reveal())) < token.MinKey {
		return secret.Versions{Current: secret.Version{Text: secret.New(setting)}}
	}
	return v
}
