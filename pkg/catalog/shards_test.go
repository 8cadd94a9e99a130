package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// most is the maximum number of tools in a shard of the tests.
const most = 12

// A world has the servers of a catalog. It changes them at random, and makes the input of Build and
// Rebuild.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	servers map[string]*ServerInput
	words   config.Words
	changed map[string]bool // servers that changed since the last build
	version int
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), servers: map[string]*ServerInput{}, changed: map[string]bool{}}
}

// define returns a tool or a prompt, whose description names a tool that may exist.
func (w *world) define(name string) ToolInput {
	w.version++
	kind, raw := tool.Tool, fmt.Sprintf(`{"name":%q,"description":"Version %d of it. See also read_file_%d and use it."}`, name, w.version, w.rng.IntN(40))
	if w.rng.IntN(6) == 0 {
		kind = tool.Prompt
	}
	d, err := tool.ParseItem(kind, []byte(raw))
	require.OK(w.t, err)
	in := ToolInput{Definition: d}
	if w.rng.IntN(3) > 0 {
		in.Record = &approval.Record{Tool: name, Kind: kind, State: approval.Approved, CurrentHash: d.Hash, ApprovedHash: d.Hash, Rev: int64(w.version), UpdatedAt: time.Unix(int64(w.version), 0).UTC()}
	}
	return in
}

// change makes one change.
func (w *world) change() {
	names := slices.Sorted(maps.Keys(w.servers))
	one := func() *ServerInput { return w.servers[names[w.rng.IntN(len(names))]] }
	switch n := w.rng.IntN(10); {
	case n < 3 || len(names) == 0:
		// add a server; some names sort differently with the colon that follows them in an id
		name := strings.Repeat("a", 1+w.rng.IntN(2)) + []string{"", "-b", "-c", ".d", "0"}[w.rng.IntN(5)] + fmt.Sprint(w.rng.IntN(4))
		s := &ServerInput{Name: name, Enabled: true}
		for i := range w.rng.IntN(most * 3 / 2) {
			s.Tools = append(s.Tools, w.define(fmt.Sprint("read_file_", i)))
		}
		w.servers[name], w.changed[name] = s, true
	case n == 3:
		s := one()
		delete(w.servers, s.Name)
	case n == 4:
		s := one()
		s.Enabled = !s.Enabled
		w.changed[s.Name] = true
	case n == 5:
		w.words = nil
		if w.rng.IntN(2) > 0 {
			w.words = config.Words{{Glob: one().Name + ":*", Words: []string{"zebra"}}}
		}
	default:
		s := one()
		name := fmt.Sprint("read_file_", w.rng.IntN(40))
		s.Tools = slices.DeleteFunc(slices.Clone(s.Tools), func(t ToolInput) bool { return t.Definition.Name == name })
		if w.rng.IntN(3) > 0 {
			s.Tools = append(s.Tools, w.define(name))
		}
		w.changed[s.Name] = true
	}
}

func (w *world) input(prev *Snapshot) Input {
	in := Input{Words: w.words, ShardTools: most}
	for name, s := range w.servers {
		c := *s
		if _, exists := prev.Server(name); exists && !w.changed[name] {
			c.Tools, c.Same = nil, true
		}
		in.Servers = append(in.Servers, c)
	}
	return in
}

func (w *world) all() Input {
	in := Input{Words: w.words}
	for _, s := range w.servers {
		in.Servers = append(in.Servers, *s)
	}
	return in
}

// After any changes and with any shards, a snapshot of Rebuild has the same content as one of
// Build.
func TestRebuildReadsAsBuild(t *testing.T) {
	for seed := range uint64(2) {
		w := newWorld(t, seed)
		s, err := Build(Input{})
		require.OK(t, err)
		shards := 0
		for range 25 {
			clear(w.changed)
			for range 1 + w.rng.IntN(3) {
				w.change()
			}
			if s, err = Rebuild(s, w.input(s)); err != nil {
				t.Fatal(err)
			}
			want, err := Build(w.all())
			require.OK(t, err)
			same(t, want, s)
			full(t, s)
			shards = max(shards, len(s.shards))
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		if shards < 3 {
			t.Errorf("there were never more than %d shards", shards)
		}
	}
}

// same checks that all reads of two snapshots have the same results.
func same(t *testing.T, want, got *Snapshot) {
	t.Helper()
	if diff := cmp.Diff(want.Servers(), got.Servers()); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if want.Len() != got.Len() || want.Items() != got.Items() || got.Index().Len() != got.Len() {
		t.Fatalf("%d and %d items, want %d and %d", got.Len(), got.Items(), want.Len(), want.Items())
	}
	for i := range want.Items() {
		if diff := cmp.Diff(want.Tool(i), got.Tool(i)); diff != "" {
			t.Errorf("item %d (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(want.Findings(i), got.Findings(i)); diff != "" {
			t.Errorf("findings of %s (-want +got):\n%s", want.ID(i), diff)
		}
		if n, ok := got.Find(want.ID(i)); !ok || n != i || got.ID(i) != want.ID(i) {
			t.Errorf("%s is found at %d, want %d", want.ID(i), n, i)
		}
		if diff := cmp.Diff(want.Record(i), got.Record(i)); diff != "" {
			t.Errorf("record of %s:\n%s", want.ID(i), diff)
		}
	}
	for _, missing := range []tool.ID{{Server: "0", Name: "x"}, {Server: "a-", Name: "x"}, {Server: "zz", Name: "x", Kind: tool.Prompt}, {Name: "a:b"}} {
		if n, ok := got.Find(missing); ok {
			t.Errorf("%s is found at %d", missing, n)
		}
	}
	view := tool.NewSet(want.Len())
	for i := range want.Len() {
		view.Add(i)
	}
	for _, text := range []string{"read file 7", "zebra", "version of it", "a-b1 see also"} {
		a := want.Index().Rank(want.Index().Query(text), view, 20, search.Options{})
		b := got.Index().Rank(got.Index().Query(text), view, 20, search.Options{})
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	w1, ok1 := want.Witness()
	w2, ok2 := got.Witness()
	if w1 != w2 || ok1 != ok2 {
		t.Errorf("witness %d, want %d", w2, w1)
	}
}

// full checks that a shard of several servers has at most the maximum number of items, and that two
// neighboring shards together have more than half of it.
func full(t *testing.T, s *Snapshot) {
	t.Helper()
	for i, part := range s.shards {
		if part.items() > most && len(part.servers) > 1 {
			t.Errorf("shard %d has %d items of %d servers", i, part.items(), len(part.servers))
		}
		if i > 0 && part.items()+s.shards[i-1].items() <= most/2 {
			t.Errorf("shards %d and %d have %d items together", i-1, i, part.items()+s.shards[i-1].items())
		}
	}
}

// base is a catalog of many servers. Each server names a tool of the next server.
func base(t *testing.T) (Input, *Snapshot) {
	in := Input{ShardTools: most}
	for i := range 20 {
		s := ServerInput{Name: fmt.Sprintf("s%02d", i), Enabled: true}
		for j := range 5 {
			d, err := tool.ParseItem(tool.Tool, fmt.Appendf(nil, `{"name":"do_it_%d_%d","description":"Use do_it_%d_0 first, or else %s there."}`, i, j, i+1, "`bake` tool"))
			require.OK(t, err)
			s.Tools = append(s.Tools, ToolInput{Definition: d})
		}
		in.Servers = append(in.Servers, s)
	}
	s, err := Build(in)
	require.OK(t, err)
	if len(s.shards) < 9 {
		t.Fatalf("%d shards", len(s.shards))
	}
	return in, s
}

// changed returns the first server of each shard of s that is not in prev.
func changed(prev, s *Snapshot) (list []string) {
	for _, part := range s.shards {
		if !slices.ContainsFunc(prev.shards, func(p *shard) bool { return p.sha256 == part.sha256 }) {
			list = append(list, strings.TrimSuffix(part.first(), ":"))
		}
	}
	return list
}

func TestRebuildTouchesOneShard(t *testing.T) {
	define := func(raw string) ToolInput {
		d, err := tool.ParseItem(tool.Tool, []byte(raw))
		require.OK(t, err)
		return ToolInput{Definition: d}
	}
	for _, tt := range []struct {
		name   string
		change func(in *Input)
		want   []string
	}{
		{"nothing", func(*Input) {}, nil},
		{"a text", func(in *Input) { in.Servers[8].Tools[1] = define(`{"name":"do_it_8_1","description":"Otherwise."}`) }, []string{"s08"}},
		{"a tool that nobody names", func(in *Input) { in.Servers[8].Tools = in.Servers[8].Tools[:4] }, []string{"s08"}},
		{"a tool that another shard names is removed", func(in *Input) { in.Servers[8].Tools = in.Servers[8].Tools[1:] }, []string{"s06", "s08"}},
		{"a tool that all servers name in quotes is added", func(in *Input) { in.Servers[8].Tools[4] = define(`{"name":"bake"}`) }, []string{"s00", "s02", "s04", "s06", "s08", "s10", "s12", "s14", "s16", "s18"}},
		{"a server is disabled", func(in *Input) { in.Servers[9].Enabled = false }, []string{"s08"}},
		{"a server is removed", func(in *Input) { in.Servers = slices.Delete(slices.Clone(in.Servers), 19, 20) }, []string{"s18"}},
		{"the operator's words", func(in *Input) { in.Words = config.Words{{Glob: "s05:*", Words: []string{"zebra"}}} }, []string{"s04"}},
		{"words for no tool", func(in *Input) { in.Words = config.Words{{Glob: "other:*", Words: []string{"zebra"}}} }, nil},
		{"a shard becomes too large", func(in *Input) {
			for i := range 5 {
				in.Servers[4].Tools = append(in.Servers[4].Tools, define(fmt.Sprintf(`{"name":"more_%d"}`, i)))
			}
		}, []string{"s04", "s05"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, prev := base(t)
			before := slices.Clone(in.Servers)
			for i := range in.Servers {
				in.Servers[i].Tools = slices.Clone(in.Servers[i].Tools)
			}
			tt.change(&in)
			for i := range in.Servers {
				s := &in.Servers[i]
				if slices.ContainsFunc(before, func(b ServerInput) bool {
					return b.Name == s.Name && slices.EqualFunc(b.Tools, s.Tools, func(a, b ToolInput) bool { return a.Definition.Hash == b.Definition.Hash })
				}) {
					s.Same, s.Tools = true, nil
				}
			}
			s, err := Rebuild(prev, in)
			require.OK(t, err)
			if diff := cmp.Diff(tt.want, changed(prev, s)); diff != "" {
				t.Errorf("changed shards (-want +got):\n%s", diff)
			}
		})
	}
}

// Rebuild does not reuse a shard that was made with another recipe, the version of Build's output.
func TestRebuildAnotherRecipe(t *testing.T) {
	in, prev := base(t)
	want := prev.SHA256()
	for i := range in.Servers {
		in.Servers[i].Same, in.Servers[i].Tools = true, nil
	}
	part := *prev.shards[3]
	part.made = recipe - 1
	shards := slices.Clone(prev.shards)
	shards[3] = &part
	s, err := Rebuild(newSnapshot(shards), in)
	require.OK(t, err)
	if s.shards[3] == &part || s.shards[3].made != recipe || s.shards[2] != prev.shards[2] || s.SHA256() != want {
		t.Error("Rebuild reuses the shard of another recipe, or does not reuse the other shards")
	}
}

func TestRebuildYields(t *testing.T) {
	in, _ := base(t)
	n := 0
	in.Yield = func() { n++ }
	if _, err := Build(in); err != nil || n != 200 { // a row and an index entry for each tool
		t.Errorf("Build yields %d times for 100 tools, want 200; error %v", n, err)
	}
}

func TestShardsOverlap(t *testing.T) {
	_, s := base(t)
	if err := ordered(s.shards); err != nil {
		t.Error(err)
	}
	turned := slices.Clone(s.shards)
	turned[2], turned[3] = turned[3], turned[2]
	if err := ordered(turned); !errors.Is(err, ErrUnusable) {
		t.Errorf("error of two swapped shards = %v", err)
	}
}

// The digest of a snapshot depends on the digests of its shards and on their order.
func TestDigest(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	if digest([]string{a}) != a || digest([]string{a, b}) == digest([]string{b, a}) || digest([]string{a, ""}) != "" || len(digest([]string{a, b})) != 64 {
		t.Error("digest of one shard, swapped shards or an unknown SHA-256 is wrong")
	}
}

// decodeBase restores a shard from its encoded bytes.
func TestShardBytes(t *testing.T) {
	_, s := base(t)
	for _, part := range s.shards {
		again, err := decodeBase(bytes.Clone(part.blob))
		if err != nil || again.sha256 != part.sha256 || again.made != recipe || !bytes.Equal(again.asked, part.asked) || len(part.asked) == 0 {
			t.Errorf("%+v, %v", again, err)
		}
	}
}
