package decide

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An itemIndex has what lists need to know about the items of one catalog, computed once. It does
// not depend on decisions: if each decision moved items, reviewers would lose their place.
type itemIndex struct {
	snap  *catalog.Snapshot
	cfg   *config.Config
	items []int // by id: tools, prompts and resources
	mixed bool  // not all items are tools

	orders    map[string]*order
	text      func() []string        // by number: the searchable text, in lower case
	found     func() []findingSet    // by number
	resources func() map[address]int // numbers of resources
}

// An order is the items in one sort order.
type order struct {
	once sync.Once
	keys []int64 // by number
	list []int   // by key, then by id
}

// itemIndex returns the index of the items in v.
func (d *Service) itemIndex(st *state.State, v *state.View) *itemIndex {
	d.tables.Lock()
	defer d.tables.Unlock()
	if t := d.tables.last; t != nil && t.cfg == st.Config && sameTools(t.snap, st.Catalog) {
		return t
	}
	t := &itemIndex{snap: st.Catalog, cfg: st.Config, items: byID(v), mixed: v.Items().Len() > 0, orders: map[string]*order{}}
	for _, name := range Sorts() {
		t.orders[name] = &order{}
	}
	t.text = sync.OnceValue(t.texts)
	t.found = sync.OnceValue(func() []findingSet { return t.findings(v) })
	t.resources = sync.OnceValue(t.addresses)
	d.tables.last = t
	return t
}

// byID returns the numbers of the items in v, sorted by id. It merges the tools and the other
// items, which are both sorted by id.
func byID(v *state.View) []int {
	tools, items := slices.Collect(v.Tools().All()), slices.Collect(v.Items().All())
	if len(items) == 0 {
		return tools
	}
	out := make([]int, 0, len(tools)+len(items))
	for _, t := range tools {
		for len(items) > 0 && v.ID(items[0]).Compare(v.ID(t)) < 0 {
			out, items = append(out, items[0]), items[1:]
		}
		out = append(out, t)
	}
	return append(out, items...)
}

// sameTools reports whether two catalogs have the same content. Each sync makes a new catalog.
func sameTools(a, b *catalog.Snapshot) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.SHA256() == b.SHA256()
}

// order returns the named order.
func (t *itemIndex) order(name string, v *state.View) *order {
	o := t.orders[name]
	o.once.Do(func() {
		o.list = slices.Clone(t.items)
		if len(o.list) == 0 {
			return
		}
		o.keys = make([]int64, t.snap.Items())
		for _, i := range o.list {
			o.keys[i] = t.key(name, v, i)
		}
		if name == ByRisk {
			o.groupByServer(v)
		}
		slices.SortStableFunc(o.list, func(x, y int) int { return cmp.Compare(o.keys[x], o.keys[y]) })
	})
	return o
}

// key returns the sort key of item i.
func (t *itemIndex) key(name string, v *state.View, i int) int64 {
	approved, _, updated, ok := t.snap.ApprovalState(i)
	switch name {
	case ByRisk:
		return risk(approved, v.Tier(i), t.found()[i])
	case ByNewest, ByOldest:
		if !ok {
			return 0
		}
		if name == ByNewest {
			return -updated.UnixNano()
		}
		return updated.UnixNano()
	}
	return 0
}

// orderFor returns the named order for a list. In the order [ByRisk], the items with askers come
// before all others.
func (t *itemIndex) orderFor(name string, askers map[tool.ID]int, v *state.View) *order {
	o := t.order(name, v)
	if name != ByRisk || len(askers) == 0 || len(o.keys) == 0 {
		return o
	}
	out := &order{keys: slices.Clone(o.keys), list: make([]int, 0, len(o.list))}
	for id := range askers {
		if i, ok := v.Find(id); ok {
			out.keys[i] -= requestedFirst
		}
	}
	for _, first := range []bool{true, false} {
		for _, i := range o.list {
			if (out.keys[i] < 0) == first {
				out.list = append(out.list, i)
			}
		}
	}
	return out
}

// groupByServer changes the keys so that the items of a server follow each other. The server with
// the lowest key comes first.
func (o *order) groupByServer(v *state.View) {
	lowest := map[string]int64{}
	for _, i := range o.list {
		server := v.ID(i).Server
		if key, ok := lowest[server]; !ok || o.keys[i] < key {
			lowest[server] = o.keys[i]
		}
	}
	servers := slices.SortedFunc(maps.Keys(lowest), func(a, b string) int {
		return cmp.Or(cmp.Compare(lowest[a], lowest[b]), strings.Compare(a, b))
	})
	place := map[string]int64{}
	for n, server := range servers {
		place[server] = int64(n)
	}
	for _, i := range o.list {
		o.keys[i] |= place[v.ID(i).Server] << serverBits
	}
}

// serverBits is how many bits of a key of [ByRisk] are about the item itself. The bits above are
// the place of its server, and requestedFirst is larger than all keys.
const (
	serverBits     = 32
	requestedFirst = 1 << 62
)

// risk returns the sort key of an item in its server, in the order [ByRisk]: first items with severe
// findings, then items that changed after an approval, then by tier and number of findings.
func risk(s approval.State, tier tool.Tier, f findingSet) int64 {
	rank := int64(slices.Index(States(), stateText(s)))
	if f&foundSevere == 0 {
		rank |= 1 << 8
	}
	return rank<<16 | int64(tier)<<8 | int64(255-f.count())
}

// findings returns the findings of each item.
func (t *itemIndex) findings(v *state.View) []findingSet {
	if t.snap == nil {
		return nil
	}
	out, codes := make([]findingSet, t.snap.Items()), finding.Codes()
	for _, i := range t.items {
		out[i] = findingSetOf(v, i, codes)
	}
	return out
}

// after returns the position in o of the first item after the key and id.
func (o *order) after(key int64, id string, idOf func(int) tool.ID) int {
	n, found := slices.BinarySearchFunc(o.list, id, func(i int, id string) int {
		return cmp.Or(cmp.Compare(o.keys[i], key), cmp.Compare(idOf(i).String(), id))
	})
	if found {
		n++
	}
	return n
}

// cursor returns the cursor after item i in the named order.
func (o *order) cursor(name string, i int, id tool.ID) string {
	return text.NewCursor("tools by "+name, strconv.FormatInt(o.keys[i], 10), id.String())
}

// start returns the position in o at which the page begins.
func (o *order) start(name string, p Paging, idOf func(int) tool.ID) (int, error) {
	entry, err := p.entry("tools by "+name, 2)
	if err != nil || entry[0] == "" {
		return 0, err
	}
	key, err := strconv.ParseInt(entry[0], 10, 64)
	if err != nil {
		return 0, errCursor()
	}
	return o.after(key, entry[1], idOf), nil
}

// texts returns the searchable text of each item.
func (t *itemIndex) texts() []string {
	if t.snap == nil {
		return nil
	}
	out := make([]string, t.snap.Items())
	for _, i := range t.items {
		title, description, input := t.snap.Texts(i)
		id, own := t.snap.ID(i), ""
		if id.Kind == tool.Resource {
			own = t.snap.Tool(i).Definition.Name
		}
		var b strings.Builder
		for _, s := range []string{id.String(), own, title, description} {
			b.WriteString(s)
			b.WriteByte('\n')
		}
		for _, name := range parameterNames(id.Kind, input) {
			b.WriteString(name)
			b.WriteByte('\n')
		}
		out[i] = strings.ToLower(b.String())
	}
	return out
}

// parameterNames returns the names of a tool's parameters by its schema, or of a prompt's
// arguments.
func parameterNames(kind tool.Kind, input json.RawMessage) (names []string) {
	if kind == tool.Prompt {
		arguments, _ := tool.ReadArguments(input) // the catalog has parsed them before
		for _, a := range arguments {
			names = append(names, a.Name)
		}
		return names
	}
	properties, err := rawjson.Split(rawjson.Get(input, "properties"), rawjson.Lenient)
	if err != nil {
		return nil
	}
	for _, p := range properties {
		names = append(names, p.Name)
	}
	return names
}
