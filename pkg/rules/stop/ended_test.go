package stop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// at returns a stop of a target.
func at(target stop.Target, t time.Time) stop.Stop {
	s := stoptest.Server("")
	s.Target, s.At = target, t
	return s
}

func TestLast(t *testing.T) {
	git, ci, all := stop.Target{Server: "git"}, stop.Target{Agent: "token:ci"}, stop.Target{All: true}
	for name, tt := range map[string]struct {
		s    stop.Stops
		want time.Time
	}{
		"nothing":                  {stop.Stops{}, time.Time{}},
		"another server":           {stop.Stops{List: []stop.Stop{at(stop.Target{Server: "github"}, noon)}, Ended: []stop.Ended{{stop.Target{Server: "Git"}, noon}}}, time.Time{}},
		"another agent":            {stop.Stops{List: []stop.Stop{at(stop.Target{Agent: "token:cd"}, noon)}, Ended: []stop.Ended{{stop.Target{Agent: "git"}, noon}}}, time.Time{}},
		"the server":               {stop.Stops{List: []stop.Stop{at(git, noon)}}, noon},
		"the agent":                {stop.Stops{List: []stop.Stop{at(ci, noon)}}, noon},
		"everything":               {stop.Stops{List: []stop.Stop{at(all, noon)}}, noon},
		"the server, undone":       {stop.Stops{Ended: []stop.Ended{{git, noon}}}, noon},
		"the agent, undone":        {stop.Stops{Ended: []stop.Ended{{ci, noon}}}, noon},
		"everything, undone":       {stop.Stops{Ended: []stop.Ended{{all, noon}}}, noon},
		"the later time wins":      {stop.Stops{List: []stop.Stop{at(git, noon)}, Ended: []stop.Ended{{ci, noon.Add(-1)}, {all, noon.Add(1)}}}, noon.Add(1)},
		"a stop that is active":    {stop.Stops{List: []stop.Stop{at(git, noon)}, Ended: []stop.Ended{{git, noon.Add(-1)}}}, noon},
		"a config's stop, no time": {stop.Stops{List: []stop.Stop{{Target: all}}}, time.Time{}},
	} {
		if got := tt.s.Last("git", "token:ci"); !got.Equal(tt.want) {
			t.Errorf("%s: Last = %v, want %v", name, got, tt.want)
		}
	}
	if last := (stop.Stops{List: []stop.Stop{at(git, noon)}, Ended: []stop.Ended{{ci, noon}}}).Last("", ""); !last.IsZero() {
		t.Errorf("no server and no agent were stopped at %v", last)
	}
	person := stop.Stops{Ended: []stop.Ended{{git, noon}}, Rev: 4}
	config := stop.Stops{List: []stop.Stop{{Target: all, Reason: "for now"}}, Ended: []stop.Ended{{ci, noon.Add(1)}}}
	if both := config.And(person); len(both.List) != 1 || len(both.Ended) != 2 || !both.Last("git", "").Equal(noon) || !both.Last("", "token:ci").Equal(noon.Add(1)) {
		t.Errorf("the union is %+v", both)
	}
	if len(config.Ended) != 1 || len(person.Ended) != 1 {
		t.Error("And changed one of its operands")
	}
}

// Stops and undos come in any order and number, from machines with different clocks. Still, Last
// never returns an earlier time than a target's latest stop, as long as a grant from before that
// stop could be valid. And the document never exceeds its size limit.
func TestLastIsNeverEarlier(t *testing.T) {
	const day = 24 * time.Hour
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		servers, agents := 5<<(seed%6), 3<<(seed%5) // from a few to more than Ended can contain
		var s stop.Stops
		seen := map[stop.Target]time.Time{} // when each was stopped last
		for now := noon; now.Before(noon.Add(25 * day)); now = now.Add(time.Duration(rng.Int64N(int64(time.Hour)))) {
			target := stop.Target{Server: fmt.Sprint("s", rng.IntN(servers))}
			switch n := rng.IntN(20); {
			case n == 0:
				target = stop.Target{All: true}
			case n < 8:
				target = stop.Target{Agent: fmt.Sprint("a", rng.IntN(agents))}
			}
			before := s
			if _, stands := s.Find(target); stands {
				var err error
				s, err = s.Undo(target)
				require.OK(t, err)
			} else if next, err := s.Add(at(target, now.Add(-time.Duration(rng.Int64N(int64(time.Hour)))))); err == nil { // clocks differ
				s = next
				if held, _ := s.Find(target); held.At.After(seen[target]) {
					seen[target] = held.At
				}
			} else if !errors.Is(err, stop.ErrFull) {
				t.Fatal(err)
			}
			if err := s.Check(); err != nil || len(before.Ended) > 64 {
				t.Fatalf("seed %d: %v with %d ended", seed, err, len(before.Ended))
			}
			for target, last := range seen {
				if got := s.Last(target.Server, target.Agent); got.Before(last) {
					t.Fatalf("seed %d: %s was stopped at %v, and Last says %v", seed, target, last, got)
				}
			}
		}
		if seed%6 > 3 && len(s.Ended) < 60 {
			t.Errorf("seed %d: only %d ended, too few for a test", seed, len(s.Ended))
		}
	}
}

// Ended stops are removed when they are older than the longest grant.
func TestEndedIsForgotten(t *testing.T) {
	s, err := stop.Stops{List: []stop.Stop{at(stop.Target{Server: "old"}, noon), at(stop.Target{Server: "new"}, noon.Add(31*24*time.Hour))}}.Undo(stop.Target{Server: "old"})
	require.OK(t, err)
	s, err = s.Undo(stop.Target{Server: "new"})
	require.OK(t, err)
	if len(s.Ended) != 1 || s.Ended[0].Server != "new" {
		t.Errorf("ended: %+v", s.Ended)
	}
	s, err = stop.Stops{List: []stop.Stop{at(stop.Target{Server: "git"}, time.Time{})}}.Undo(stop.Target{Server: "git"})
	if err != nil || len(s.List)+len(s.Ended) != 0 {
		t.Errorf("after the undo of a stop without a time: %+v, %v", s, err)
	}
}

func TestStored(t *testing.T) {
	// The form of an earlier program is readable, and so is the new form.
	held, err := stop.Decode([]byte(`{"list":[{"server":"git","reason":"r","by":"kim","at":"2026-11-22T12:00:00Z"}],"rev":3}`))
	if err != nil || len(held.Ended) != 0 || held.Rev != 3 || !held.Last("git", "").Equal(noon) {
		t.Errorf("Decode = %+v, %v", held, err)
	}
	held, err = held.Undo(stop.Target{Server: "git"})
	require.OK(t, err)
	next, data, err := held.Encode()
	if got, back := stop.Decode(data); err != nil || back != nil || next.Rev != 4 || len(got.Ended) != 1 || got.Ended[0] != held.Ended[0] {
		t.Errorf("Encode = %s, %v; Decode = %+v, %v", data, err, got, back)
	}
	for name, ended := range map[string][]stop.Ended{
		"no target that is known": {{stop.Target{}, noon}},
		"two targets":             {{stop.Target{Server: "a", Agent: "b"}, noon}},
		"no time":                 {{stop.Target{Server: "a"}, time.Time{}}},
		"too many":                make([]stop.Ended, 65),
	} {
		data, err := json.Marshal(stop.Stops{Ended: ended, Rev: 1})
		require.OK(t, err)
		if s, err := stop.Decode(data); err == nil {
			t.Errorf("%s is read as %+v", name, s)
		}
		if _, _, err := (stop.Stops{Ended: ended}).Encode(); err == nil {
			t.Errorf("%s is stored", name)
		}
	}
}

// The maximum number of stops and ended stops fits into an item of DynamoDB. In JSON,
// "<" takes six bytes. If the names consist of such characters, Encode refuses the stops, so that
// the table does not have to.
func TestStoredSize(t *testing.T) {
	for letter, fits := range map[string]bool{"x": true, "é": true, "<": false} {
		name := func(i int) string {
			return fmt.Sprintf("%03d", i) + strings.Repeat(letter, (stop.MaxName-3)/len(letter))
		}
		var s stop.Stops
		for i := range stop.MaxStops {
			one := at(stop.Target{Agent: name(i)}, noon)
			one.By, one.Reason = name(i), strings.Repeat(letter, stop.MaxReason/len(letter))
			s.List = append(s.List, one)
			s.Ended = append(s.Ended, stop.Ended{Target: stop.Target{Agent: name(100 + i)}, At: noon})
		}
		_, data, err := s.Encode()
		if fits != (err == nil) || len(data) > 380<<10 && err == nil || err != nil && !errors.Is(err, stop.ErrFull) {
			t.Errorf("%q: %d bytes, %v", letter, len(data), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	_, data, err := stop.Stops{List: []stop.Stop{stoptest.Server("git")}, Ended: []stop.Ended{{stop.Target{All: true}, noon}}}.Encode()
	require.OK(f, err)
	f.Add(data)
	f.Add([]byte(`{"list":[],"rev":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := stop.Decode(data)
		if err == nil && (s.Check() != nil || s.Rev < 1) {
			t.Errorf("Decode(%q) = %+v", data, s)
		}
	})
}
