package boot

import (
	"context"
	"net/http"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// PublicAnywhere returns [Program.Public] for a program that is told its address by the first
// request, unless the settings say it. A function cannot have its own URL in its environment: the
// one is made of the other.
func (p *Program) PublicAnywhere(ctx context.Context) (http.Handler, error) {
	if p.Settings.BaseURL != "" {
		return p.Public()
	}
	if p.Settings.Access.Takes(identity.WayToken) { // its key is read at the start, as behind an API
		if err := p.readTokens(ctx); err != nil {
			return nil, err
		}
	}
	return &atDomain{domain: apigw.Domain, build: p.publicAt}, nil
}

// atDomain serves at the address by which AWS says that the request came. A Function URL has one.
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
		panic(err) // the settings were checked with another address; an event that names none is no request of AWS
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
