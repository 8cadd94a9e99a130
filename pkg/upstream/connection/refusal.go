package connection

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// partRefusals has the last refused call of each server. Its documents contain no secrets.
const partRefusals = "CRED#refused"

const (
	keepRefusal = 24 * time.Hour   // people see a refused call for this time
	noteEvery   = 10 * time.Minute // in this time, the same refusal is stored only once
	refusalTime = 2 * time.Second  // maximum time to store a refusal
	maxRefusals = 256              // servers whose refusals a process remembers
)

// A Refusal is a call that a server refused. It refuses such calls until a person signs in at the
// server, or signs in again.
type Refusal struct {
	Server    string             `json:"server"`
	Reason    string             `json:"reason"` // one of [outcome.Reasons]
	Connected bool               `json:"connected,omitempty"`
	Challenge *outcome.Challenge `json:"challenge,omitempty"`
	At        time.Time          `json:"at"`
}

// A noted is a refusal in memory, so that the next calls store a refusal only if it is new.
type noted struct {
	what string
	at   time.Time
}

// Refused stores that a server refused a call. So people see the refusal, and the next sign-in
// requests the scopes that the server named. The same refusal is stored once in 10 minutes. An
// error is only logged, because the call has its answer already.
func (s *Service) Refused(ctx context.Context, server oauth.Server, o outcome.Outcome) {
	r := Refusal{server.Name, o.Reason, o.Connected, o.Challenge, s.o.Now().UTC()}
	k := document.Key{Part: partRefusals, ID: keyOf(server.Name, server.URL).ID}
	if !s.isNews(k, r) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTime)
	defer cancel()
	before, err := document.Get(ctx, s.o.Docs, k)
	if err == nil {
		r.addScopes(before.Data)
		var data []byte
		if data, err = json.Marshal(r); err == nil {
			err = s.o.Docs.PutDocs(ctx, document.Doc{
				Key: k, Data: data, Rev: before.Rev, Keep: r.At.Add(keepRefusal),
			})
		}
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.String("server", server.Name), slog.String("reason", r.Reason)}
	if err != nil { // after a conflict, the refusal of another process is stored
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", err))
	}
	s.o.Log.LogAttrs(ctx, level, "call refused until a person signs in", attrs...)
}

// isNews reports whether this process has not stored the refusal in the last 10 minutes.
func (s *Service) isNews(k document.Key, r Refusal) bool {
	n := noted{r.Reason, r.At}
	if r.Challenge != nil {
		n.what += " " + strings.Join(slices.Sorted(slices.Values(r.Challenge.Scopes)), " ")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.noted[k]; ok && last.what == n.what && n.at.Sub(last.at) < noteEvery {
		return false
	}
	if len(s.noted) >= maxRefusals {
		clear(s.noted)
	}
	s.noted[k] = n
	return true
}

// addScopes adds the scopes of the stored refusal, because two tools can need different scopes.
func (r *Refusal) addScopes(stored []byte) {
	var old Refusal
	if r.Challenge == nil || len(stored) == 0 || json.Unmarshal(stored, &old) != nil ||
		old.Challenge == nil || old.Reason != r.Reason {
		return
	}
	c := *r.Challenge
	c.Scopes = union(old.Challenge.Scopes, c.Scopes)
	r.Challenge = &c
}

// Refusals returns the last refused call of each server, by the id of the server's connection. A
// sign-in at the server deletes the refused call.
func (s *Service) Refusals(ctx context.Context) (map[string]Refusal, error) {
	docs, _, err := s.o.Docs.ListDocs(ctx, partRefusals)
	if err != nil {
		return nil, err
	}
	all := map[string]Refusal{}
	for _, d := range docs {
		var r Refusal
		if json.Unmarshal(d.Data, &r) == nil {
			all[d.ID] = r
		}
	}
	return all, nil
}

// RefusalOf returns the refused call of a server from all, or ok = false if there is none.
func RefusalOf(all map[string]Refusal, server, url string) (r Refusal, ok bool) {
	r, ok = all[keyOf(server, url).ID]
	return r, ok
}

// forgetRefusal deletes the refused call of a server. After an error, the refusal stays until it
// expires.
func (s *Service) forgetRefusal(ctx context.Context, k document.Key) {
	k.Part = partRefusals
	s.mu.Lock()
	delete(s.noted, k)
	s.mu.Unlock()
	if d, err := document.Get(ctx, s.o.Docs, k); err == nil && d.Rev != 0 {
		_ = s.o.Docs.PutDocs(ctx, document.Doc{Key: k, Rev: d.Rev})
	}
}
