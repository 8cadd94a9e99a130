package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

//go:embed policy.cedar
var demoPolicy []byte

// Servers are the two running demo servers.
type Servers struct {
	tickets *tickets
	fresh   bool // the folder had no config: [Servers.Play] has work to do
	running []*http.Server
}

// Start starts the servers on loopback. A folder without a config gets the demo's config and
// policy. In a folder with the demo's config, the servers listen at the addresses in the config,
// because the gateway treats a server at another address as another server.
func Start(ctx context.Context, objects object.Store) (*Servers, error) {
	s := &Servers{tickets: newTickets()}
	o, err := objects.Get(ctx, config.Key, "")
	switch {
	case errors.Is(err, object.ErrNotFound):
		s.fresh = true
	case err != nil:
		return nil, err
	}
	var existing *config.Config
	if !s.fresh {
		if existing, err = config.Parse(o.Data); err != nil {
			return nil, fmt.Errorf("%s: %w", config.Key, err)
		}
		s.tickets.update()
	}
	at := map[string]string{}
	for name, h := range map[string]http.Handler{"notes": newNotes(), "tickets": s.tickets.handler()} {
		addr, err := address(existing, name)
		if err == nil {
			at[name], err = s.listen(ctx, addr, h)
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("demo server %q: %w", name, err)
		}
	}
	if s.fresh {
		err = writeConfig(ctx, objects, at)
	}
	if err != nil {
		s.Close()
	}
	return s, err
}

// address returns the address that a server had when the folder was created.
func address(c *config.Config, name string) (string, error) {
	if c == nil {
		return "127.0.0.1:0", nil
	}
	server, ok := c.Server(name)
	if !ok {
		return "", errors.New("the folder's config is not the demo's: choose another --dir, or leave --demo out")
	}
	u, err := url.Parse(server.URL)
	if err != nil || u.Hostname() != "127.0.0.1" {
		return "", errors.New("the folder's config has the server at an address other than " +
			"127.0.0.1: choose another --dir, or leave --demo out")
	}
	return u.Host, nil
}

func (s *Servers) listen(ctx context.Context, addr string, h http.Handler) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.running = append(s.running, server)
	go server.Serve(l) //nolint:errcheck // Serve returns when Close is called; if it returns earlier, every sync reports that the port is closed
	return "http://" + l.Addr().String() + "/mcp", nil
}

// writeConfig writes the policy first, so that the rule about the tools exists before the tools.
func writeConfig(ctx context.Context, objects object.Store, at map[string]string) error {
	servers := map[string]any{}
	for name, url := range at {
		servers[name] = map[string]string{"url": url}
	}
	data, err := rawjson.Encode(map[string]any{
		"mcpServers": servers, "gateway": map[string]any{"requests": true}, "tools": map[string]any{"confirm": []string{"tickets:close_ticket"}},
	})
	if err != nil {
		return err
	}
	if _, err := objects.Put(ctx, policy.Key, demoPolicy, object.IfAbsent); err != nil && !errors.Is(err, object.ErrConflict) {
		return err // an existing policy belongs to the user, and stays
	}
	_, err = objects.Put(ctx, config.Key, []byte(rawjson.Indent(data, "", "  ")+"\n"), object.IfAbsent)
	return err
}

// Play simulates what happens to a gateway over time, once for each folder: a person disables a
// tool, and a server changes another tool.
func (s *Servers) Play(ctx context.Context, approvals approval.Store, sync func(context.Context)) error {
	if !s.fresh {
		return nil
	}
	s.fresh = false
	r, err := approvals.Get(ctx, tool.ID{Server: "tickets", Name: "comment_on_ticket"})
	var entry approval.Entry
	if err == nil {
		r, entry, err = approval.Disable(r, approval.Author{Actor: "demo", Note: "comments go to customers; ask first", Tell: true}, time.Now())
	}
	if err == nil {
		_, err = approvals.Put(ctx, r, &entry)
	}
	if err != nil {
		return fmt.Errorf("disable a tool: %w", err)
	}
	s.tickets.update()
	sync(ctx)
	return nil
}

// Close stops the servers.
func (s *Servers) Close() {
	for _, server := range s.running {
		_ = server.Close() // ends connections at once; there is nothing to wait for
	}
}
