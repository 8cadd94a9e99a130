package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/text"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

// maxAnswer bounds an answer that is read whole.
const maxAnswer = 32 << 20

// A running is a gateway that runs, as a command asks its API.
type running struct {
	command string // for errors
	url     string // of the gateway, or of its /mcp or /admin
	dir     string // folder that holds the admin key; "": the credential is in PORTCULLIS_TOKEN, or there is none
}

// ask sends a request, with body as JSON; nil: it is a GET. An answer that is not 200 is an error. The
// caller closes the body.
func (g running) ask(ctx context.Context, env *environment, path string, query url.Values, body any) (*http.Response, error) {
	address, err := g.address(path, query)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	key, err := g.key(env)
	if err != nil {
		return nil, err
	}
	method, sent := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		if sent, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key.Reveal() != "" {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: the gateway does not answer: %w", g.command, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		var p struct{ Detail string }
		_ = json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&p) // else the status says it
		return nil, fmt.Errorf("%s: the gateway answers %s: %s", g.command, res.Status, text.Clip(text.Line(p.Detail), 1000))
	}
	return res, nil
}

// read is ask with the answer read into out.
func (g running) read(ctx context.Context, env *environment, path string, query url.Values, body, out any) error {
	res, err := g.ask(ctx, env, path, query, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("%s: the gateway's answer cannot be read: %w", g.command, err)
	}
	return nil
}

// key returns the credential.
func (g running) key(env *environment) (secret.Text, error) {
	if g.dir == "" {
		return secret.New(env.getenv(tokenVariable)), nil
	}
	data, err := os.ReadFile(filepath.Join(g.dir, keyFile))
	if err != nil {
		return secret.Text{}, fmt.Errorf("%s: the admin key: %w; only a gateway on one machine without authentication has one: elsewhere leave --dir out, and set %s", g.command, err, tokenVariable)
	}
	key, ok := token.ReadAdmin(strings.TrimSpace(string(data)))
	if !ok {
		return secret.Text{}, fmt.Errorf("%s: %s in %q holds no admin key", g.command, keyFile, g.dir)
	}
	return key, nil
}

// address returns where a gateway has something.
func (g running) address(path string, query url.Values) (string, error) {
	if _, err := endpoint(g.url); err != nil {
		return "", err
	}
	u, err := url.Parse(g.url)
	if err != nil {
		return "", err
	}
	below := strings.TrimRight(u.Path, "/")
	for _, end := range []string{"/mcp", "/admin"} {
		below = strings.TrimSuffix(below, end)
	}
	u.Path, u.RawQuery, u.Fragment = below+path, query.Encode(), ""
	return u.String(), nil
}
