package notify

import (
	"context"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// Test is the kind of a message that a person sends to one target, to see whether it arrives. No
// target can choose this kind.
const Test Kind = "test"

// ErrNoTarget says that the config in use has no such target.
var ErrNoTarget = errors.New("no such target")

// A TargetState describes a target without its secrets.
type TargetState struct {
	config.Notify
	Key  string    // identifies the target, even if its place in the list changes
	Name string    // in the log and in the audit: notify[0] (slack)
	Last *Delivery // nil: this process has sent nothing to it
}

// A Delivery is the last message to a target.
type Delivery struct {
	At      time.Time
	Kind    Kind
	Failure string // why the target did not get it; "": it did
}

// TargetsOf describes the targets of a config.
func TargetsOf(list []config.Notify) (out []TargetState) {
	for i, t := range list {
		one := newTarget(i, t)
		out = append(out, TargetState{t, one.key, one.name, nil})
	}
	return out
}

// Targets describes the targets of the config in use, each with its last delivery by this process.
func (s *Sender) Targets() []TargetState {
	out := TargetsOf(s.o.Targets())
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range out {
		if d, ok := s.last[t.Key]; ok {
			out[i].Last = &d
		}
	}
	return out
}

// Test makes one attempt to send a test message to the target with this key. The message names the
// person who sends it. Test returns [ErrNoTarget] if there is no such target.
func (s *Sender) Test(ctx context.Context, key, by string) (TargetState, error) {
	for _, t := range s.targets() {
		if t.key != key {
			continue
		}
		// Within this time there is no second attempt.
		ctx, cancel := context.WithTimeout(ctx, attempt+reserve)
		defer cancel()
		e := Event{Kind: Test, By: by, Path: "/admin/config"}.Fit(s.o.Now())
		err := s.attempts(ctx, t, e, messageOf(e, s.o.BaseURL))
		d := s.remember(t, e, err)
		return TargetState{t.Notify, key, t.name, &d}, nil
	}
	return TargetState{}, ErrNoTarget
}

// remember keeps the result of the last message to a target.
func (s *Sender) remember(t *target, e Event, err error) Delivery {
	d := Delivery{At: s.o.Now().UTC(), Kind: e.Kind}
	if err != nil {
		d.Failure = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]Delivery{}
	}
	s.last[t.key] = d
	return d
}
