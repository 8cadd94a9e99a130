package boot

import (
	"context"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// probeEnd is how long the end of a probe waits for sessions and programs to end.
const probeEnd = 2 * time.Second

// Probe lists the items of a server that a person describes, with a client of its own: nothing is
// kept, and no program or session stays. A person could describe a server that records what the
// gateway sends to it, so the client resolves only the references that the config in use already
// has for the same scheme and host, and it has no sign-ins.
func (p *Program) Probe(ctx context.Context, s config.Server) outcome.Outcome {
	known := hostSecrets{from: p.secrets, host: config.HostOf(s.URL), known: map[string]bool{}}
	if cfg := p.States.Load(ctx).Config; cfg != nil && known.host != "" {
		for _, other := range cfg.Servers {
			if config.HostOf(other.URL) == known.host {
				known.add(other.Headers)
			}
		}
	}
	client := upstream.New(&upstream.Options{
		Secrets: known, AllowNets: p.Settings.AllowNets, RuntimeAPI: p.Settings.RuntimeAPI,
		Version: Version, Commands: p.commands,
	})
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeEnd)
		defer cancel()
		client.EndPrograms(ctx)
		client.EndSessions(ctx)
		client.Close()
	}()
	target := catalog.Target(s, outcome.Outcome{})
	target.Once = true // a person waits, and can try again
	return client.Load(ctx, target)
}

// hostSecrets is a [secret.Source] with only the references that the config has for a host.
type hostSecrets struct {
	from  secret.Source
	host  string
	known map[string]bool
}

// add adds the references in values.
func (h hostSecrets) add(values config.Values) {
	for _, value := range values.Plain() {
		_, _ = secret.Expand(value, func(ref string) (string, error) {
			h.known[ref] = true
			return "", nil
		})
	}
}

// Secret implements [secret.Source].
func (h hostSecrets) Secret(ctx context.Context, ref string) (string, error) {
	if !h.known[ref] {
		return "", fmt.Errorf("a probe does not read ${%s}: the config in use has it for no "+
			"server at this host", ref)
	}
	return h.from.Secret(ctx, ref)
}
