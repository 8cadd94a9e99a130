package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// recipe is the version of Build's output. It grows if Build makes other signatures, another search
// index or another encoding from the same input. Rebuild does not share a shard that another recipe
// made. The rules of findings have their own version.
const recipe = 3

// Rebuild makes the snapshot that [Build] would make from in. A server that is Same keeps its
// tools, other items and records of prev. prev may be nil, if no server is Same. Rebuild shares the
// unchanged shards of prev, so shards may have other boundaries than Build would choose. No reader
// sees the boundaries. It builds one shard after the other.
func Rebuild(prev *Snapshot, in Input) (*Snapshot, error) {
	s, err := rebuild(prev, in)
	if err != nil {
		return nil, fmt.Errorf("build catalog: %w", err)
	}
	return s, nil
}

func rebuild(prev *Snapshot, in Input) (*Snapshot, error) {
	servers, err := weighed(prev, in)
	if err != nil {
		return nil, err
	}
	c := change{prev: prev, in: in}
	c.moved = sync.OnceValue(func() map[uint32]bool { return c.names(servers) })
	var firsts []string
	if prev != nil {
		firsts = prev.firsts
	}
	groups := assignShards(servers, firsts)
	shards := make([]*shard, len(groups))
	for i, group := range groups {
		if shards[i] = c.shared(group); shards[i] != nil {
			continue
		}
		if shards[i], err = c.build(group, servers); err != nil {
			return nil, err
		}
	}
	return newSnapshot(shards), nil
}

// weighed checks the servers, and returns them with their weights in the order of their items' ids.
func weighed(prev *Snapshot, in Input) ([]serverWeight, error) {
	most := float64(cmp.Or(in.ShardTools, maxShard))
	servers := make([]serverWeight, len(in.Servers))
	for i, s := range in.Servers {
		if s.Name == "" || strings.Contains(s.Name, ":") {
			return nil, fmt.Errorf("server name %q is empty or has a colon", s.Name)
		}
		items, bytes := len(s.Tools), 0
		for _, t := range s.Tools {
			bytes += len(t.Definition.Raw)
		}
		if s.Same {
			var held Server
			ok := prev != nil
			if ok {
				held, ok = prev.Server(s.Name)
			}
			if !ok || s.Tools != nil {
				return nil, fmt.Errorf("server %q is marked as the same, "+
					"but the last catalog does not have it, or it has tools", s.Name)
			}
			items = held.Tools + held.Items
			for n := range held.Numbers() {
				part, row := prev.row(n)
				bytes += len(part.bytes(row[atRaw:]))
			}
		}
		servers[i] = serverWeight{s, max(float64(items)/most, float64(bytes)/maxShardBytes)}
	}
	slices.SortFunc(servers, func(a, b serverWeight) int { return strings.Compare(orderOf(a.Name), orderOf(b.Name)) })
	for i := range servers {
		if i > 0 && servers[i-1].Name == servers[i].Name {
			return nil, fmt.Errorf("server %q occurs twice", servers[i].Name)
		}
	}
	return servers, nil
}

// A change is the step from one snapshot to the next.
type change struct {
	prev  *Snapshot // nil: none
	in    Input
	moved func() map[uint32]bool // hashes of the tool names that servers gained or lost

	all *finding.Names // of all tools; nil until the first shard is built
}

// shared returns the shard of prev for the group, or nil if it must be built.
func (c *change) shared(group []serverWeight) *shard {
	if len(group) == 0 || c.prev == nil {
		return nil
	}
	part := c.prev.shards[c.prev.shardOf(orderOf(group[0].Name))]
	if len(part.servers) != len(group) || part.made != recipe || part.rules != finding.Version {
		return nil
	}
	for _, s := range group {
		if i, ok := part.findServer(s.Name); !ok || !s.Same || part.servers[i].Enabled != s.Enabled {
			return nil
		}
	}
	if part.depends(c.moved()) {
		return nil
	}
	words := hashWords(c.in.Words, numberedIDs(0, part.tools, part.id))
	if words != part.words {
		return nil
	}
	part, err := part.openIndex()
	if err != nil {
		return nil
	}
	return part
}

// build builds the shard of group, a part of all.
func (c *change) build(group, all []serverWeight) (*shard, error) {
	if c.all == nil {
		c.all = new(finding.NewNames(c.ids(all)))
	}
	servers := make([]ServerInput, len(group))
	for i, s := range group {
		if servers[i] = s.ServerInput; s.Same {
			servers[i].Tools = c.prev.inputs(s.Name)
		}
	}
	slices.SortFunc(servers, func(a, b ServerInput) int { return strings.Compare(a.Name, b.Name) })
	return buildShard(c.in, servers, *c.all)
}

// inputs returns the tools and other items that the snapshot has of a server, with their records.
func (s *Snapshot) inputs(name string) []ToolInput {
	server, _ := s.Server(name)
	list := make([]ToolInput, 0, server.Tools+server.Items)
	for i := range server.Numbers() {
		list = append(list, ToolInput{Definition: s.Tool(i).Definition, Record: s.Record(i)})
	}
	return list
}

// ids yields the ids of all tools. Names of other items do not count: no text could mean them by
// mistake.
func (c *change) ids(servers []serverWeight) iter.Seq[tool.ID] {
	return func(yield func(tool.ID) bool) {
		for _, s := range servers {
			for id := range c.toolsOf(s) {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// toolsOf yields the tools that a server has now.
func (c *change) toolsOf(s serverWeight) iter.Seq[tool.ID] {
	if s.Same {
		return c.before(s.Name)
	}
	return func(yield func(tool.ID) bool) {
		for _, t := range s.Tools {
			if id := t.Definition.ID(s.Name); id.Kind == tool.Tool && !yield(id) {
				return
			}
		}
	}
}

// before yields the tools that a server had in the last snapshot.
func (c *change) before(name string) iter.Seq[tool.ID] {
	if c.prev == nil {
		return numberedIDs(0, 0, nil)
	}
	held, _ := c.prev.Server(name)
	return numberedIDs(held.First, held.Tools, c.prev.ID)
}

// names returns the hashes of the tool names that servers gained or lost. If a
// description mentions a tool, the finding names a server with that tool. So the finding can change
// when any server gains or loses a tool of that name.
func (c *change) names(servers []serverWeight) map[uint32]bool {
	moved := map[uint32]bool{}
	now := map[string]bool{}
	for _, s := range servers {
		now[s.Name] = true
		if s.Same {
			continue
		}
		had := map[string]bool{}
		for id := range c.before(s.Name) {
			had[id.Name] = true
		}
		for id := range c.toolsOf(s) {
			if !had[id.Name] {
				moved[hashName(id.Name)] = true
			}
			delete(had, id.Name)
		}
		for name := range had {
			moved[hashName(name)] = true
		}
	}
	for _, s := range c.prev.servers {
		if !now[s.Name] {
			for id := range c.before(s.Name) {
				moved[hashName(id.Name)] = true
			}
		}
	}
	return moved
}

// hashName returns the hash that a shard stores for a name.
func hashName(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return h.Sum32()
}

// hashWords returns a hash of the words that the operator adds to these tools, or 0 if there are
// none.
func hashWords(words config.Words, ids iter.Seq[tool.ID]) uint64 {
	if len(words) == 0 {
		return 0
	}
	var sum hash.Hash
	for id := range ids {
		if list := words.ForTool(id); len(list) > 0 {
			if sum == nil {
				sum = sha256.New()
			}
			_, _ = fmt.Fprintf(sum, "%q %q\n", id, list)
		}
	}
	if sum == nil {
		return 0
	}
	return max(1, binary.LittleEndian.Uint64(sum.Sum(nil)))
}

// numberedIDs yields the ids of the n tools from the one with the number first.
func numberedIDs(first, n int, id func(int) tool.ID) iter.Seq[tool.ID] {
	return func(yield func(tool.ID) bool) {
		for i := range n {
			if !yield(id(first + i)) {
				return
			}
		}
	}
}
