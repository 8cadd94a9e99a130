package boot

import (
	"context"
	"net/http"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// PublicAnywhere returns the handler of [Program.Public]. If the settings do not have the address
// of the program, the handler uses the address to which the current request was sent. A function
// cannot have its own URL in its environment: AWS creates the URL after the function.
func (p *Program) PublicAnywhere(ctx context.Context) (http.Handler, error) {
	if p.Settings.BaseURL != "" {
		return p.Public()
	}
	if p.Settings.Access.Takes(identity.WayToken) { // read the key of agent tokens at the start, not at the first request
		if err := p.readTokens(ctx); err != nil {
			return nil, err
		}
	}
	return &atDomain{domain: apigw.Domain, build: p.publicAt}, nil
}

// atDomain serves a function with a Function URL. It uses the address at which AWS received the
// request.
type atDomain struct {
	domain func(context.Context) string
	build  func(base string) (*http.ServeMux, error)

	mu      sync.Mutex
	base    string
	handler http.Handler
}

// ServeHTTP implements [http.Handler].
func (d *atDomain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, err := d.at("https://" + d.domain(r.Context()))
	if err != nil {
		// cannot happen: the settings are valid with another address, and every AWS event names an
		// address
		panic(err)
	}
	h.ServeHTTP(w, r)
}

func (d *atDomain) at(base string) (http.Handler, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handler != nil && d.base == base {
		return d.handler, nil
	}
	h, err := d.build(base)
	if err != nil {
		return nil, err
	}
	d.base, d.handler = base, h
	return h, nil
}
