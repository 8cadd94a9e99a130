package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// A Plan describes the round that [Syncer.Plan] began.
type Plan struct {
	Round    Round
	Servers  int  // to load
	Messages int  // sent to workers
	Confirm  bool // Plan requested an assembly immediately
}

// Plan begins a round of a sync that many processes share: it sends workers the names of the
// servers that are due. If all is set, it sends all servers, for example because a person requested
// a sync or the config has changed. Otherwise it sends servers that are due and not in the queue. A
// disabled server is due once an hour, so that its records are read. A failed server is due every
// five minutes, even if the caller plans more often. Plan requests an assembly immediately if the
// catalog is old or has another config, or if the last sync failed. Plan calls no server.
//
// If Plan fails or is interrupted, workers load the servers that were sent. The other servers are
// due in the next round. If Plan sent a server but could not note it, a server may be sent twice,
// which does no harm. If planning fails, Plan still requests an assembly, because people see the
// fault in its report.
func (s *Syncer) Plan(ctx context.Context, q Queues, all bool) (Plan, error) {
	if err := s.enter(ctx); err != nil {
		return Plan{}, err
	}
	defer s.leave()
	r := s.newRun()
	plan := Plan{Round: Round{Began: r.began, All: all}}
	names, err := r.plan(ctx, &plan)
	if err != nil {
		plan.Confirm = true
		err = fmt.Errorf("plan sync: %w", err)
		return plan, errors.Join(err, s.askAssembly(ctx, q, plan.Round))
	}
	var messages []Message
	for batch := range slices.Chunk(names, maxServers) {
		body, err := Job{plan.Round, batch}.Encode()
		if err != nil {
			return plan, err
		}
		messages = append(messages, Message{Body: body})
	}
	if len(messages) > 0 {
		if err := q.Work.Send(ctx, messages); err != nil {
			return plan, fmt.Errorf("send servers to workers: %w", err)
		}
		plan.Messages = len(messages)
		if err := r.notePlanned(ctx, names); err != nil {
			return plan, err
		}
	}
	if !plan.Confirm {
		return plan, nil
	}
	return plan, s.askAssembly(ctx, q, plan.Round)
}

// plan completes the plan, and returns the servers that are due. It writes only the last good
// config.
func (r *run) plan(ctx context.Context, p *Plan) ([]string, error) {
	if err := r.readCurrent(ctx); err != nil {
		return nil, err
	}
	if err := r.readConfig(ctx); err != nil {
		return nil, err
	}
	planned, _, err := r.readPlanned(ctx)
	if err != nil {
		return nil, err
	}
	names := r.dueServers(p.Round.All, planned.Servers)
	p.Round.Config, p.Servers = r.config.Version, len(names)
	p.Confirm = p.Round.All || r.needsCatalog()
	return names, nil
}

// A planned has the times at which servers were last sent to workers.
type planned struct {
	Servers map[string]time.Time `json:"servers"`
}

func (s *Syncer) readPlanned(ctx context.Context) (p planned, etag string, err error) {
	p.Servers = map[string]time.Time{}
	o, err := s.objects.Get(ctx, planKey, "")
	if errors.Is(err, object.ErrNotFound) {
		return p, object.IfAbsent, nil
	}
	if err != nil {
		return p, "", fmt.Errorf("read planned servers: %w", err)
	}
	if json.Unmarshal(o.Data, &p) != nil || p.Servers == nil { // damaged: servers may be loaded twice
		p.Servers = map[string]time.Time{}
	}
	return p, o.ETag, nil
}

// notePlanned notes the servers that were sent to workers. For a quarter of an hour, no round sends
// them again, unless a worker stores a result sooner.
func (r *run) notePlanned(ctx context.Context, names []string) error {
	_, err := document.Retry(ctx, object.ErrConflict, func() (etag string, err error) {
		p, etag, err := r.readPlanned(ctx)
		if err != nil {
			return "", err
		}
		for name, at := range p.Servers {
			if r.began.Sub(at) > 2*pollMost {
				delete(p.Servers, name)
			}
		}
		for _, name := range names {
			if at := p.Servers[name]; r.began.After(at) || at.After(r.o.Now()) {
				p.Servers[name] = r.began
			}
		}
		data, err := json.Marshal(p)
		if err != nil {
			return "", err
		}
		return r.objects.Put(ctx, planKey, data, etag)
	})
	return err
}
