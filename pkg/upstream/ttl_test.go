package upstream

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The lists of a server stay fresh for the shortest time that any page of any list states.
func TestListTTL(t *testing.T) {
	for _, c := range []struct {
		name  string
		lists [][]string // ttlMs of the pages of each list
		want  time.Duration
	}{
		{"no TTL", [][]string{{""}}, 0},
		{"one TTL", [][]string{{`,"ttlMs":90000`}}, 90 * time.Second},
		{"the least of the pages", [][]string{{`,"ttlMs":90000`, `,"ttlMs":60000`, `,"ttlMs":120000`}}, time.Minute},
		{"a page without a TTL", [][]string{{`,"ttlMs":90000`, ``}}, 0},
		{"the least of the lists", [][]string{{`,"ttlMs":90000`}, {`,"ttlMs":30000`}}, 30 * time.Second},
		{"a list without a TTL", [][]string{{``}, {`,"ttlMs":30000`}}, 0},
		{"a year, which is too long", [][]string{{`,"ttlMs":31536000000`}}, time.Hour},
		{"a TTL beyond any number", [][]string{{`,"ttlMs":1e999`}}, 0},
		{"a negative TTL", [][]string{{`,"ttlMs":-5`}}, 0},
		{"a text", [][]string{{`,"ttlMs":"90000"`}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := listing{}
			for i, list := range c.lists {
				of := listOfTools
				if i > 0 {
					of = otherLists[0]
				}
				p := &pages{list: of, before: &found}
				for n, ttl := range list {
					cursor := ""
					if n < len(list)-1 {
						cursor = `,"nextCursor":"` + string(rune('a'+n)) + `"`
					}
					if _, err := p.add(json.RawMessage(`{"` + of.member + `":[{"name":"x` + string(rune('a'+n)) + `"}]` + cursor + ttl + `}`)); err != nil {
						t.Fatal(err)
					}
				}
				found.join(p)
			}
			if found.ttl != c.want {
				t.Errorf("fresh for %v, want %v", found.ttl, c.want)
			}
			if found.tools[0].Kind != tool.Tool {
				t.Errorf("tools of the listing = %v, want tools only", found.tools)
			}
		})
	}
}
