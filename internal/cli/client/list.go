package client

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// maxPage is how many entries the API returns in one page.
const maxPage = 200

// readPages reads the entries of a list. The argument most is their maximum; 0 means all. add takes
// a page, and returns the number of entries so far and the cursor of the next page, which is "" at
// the end.
func readPages[T any](
	ctx context.Context, c *Client, path string, query url.Values, most int, add func(T) (int, string),
) error {
	for n := 0; ; {
		limit := maxPage
		if most > 0 {
			limit = min(most-n, maxPage)
		}
		query.Set("limit", strconv.Itoa(limit))
		var page T
		if err := c.read(ctx, path, query, nil, &page); err != nil {
			return err
		}
		var next string
		if n, next = add(page); next == "" || most > 0 && n >= most {
			return nil
		}
		query.Set("after", next)
	}
}

// A List is all pages of the tools, prompts and resources that a filter matches.
type List struct {
	decide.Page

	answer map[string]json.RawMessage // the last page
	rows   []json.RawMessage          // of all pages
}

// List returns the items that a filter matches. The argument most is their maximum; 0 means all.
// After each page except the last it calls step, if that is not nil, with the number of items so
// far.
func (c *Client) List(
	ctx context.Context, f decide.Filter, most int, step func(n, total int),
) (*List, error) {
	out := &List{}
	err := readPages(ctx, c, itemsPath, f.Values(), most, func(a Answer[decide.Page]) (int, string) {
		page := a.Value
		page.Tools = slices.Concat(out.Tools, page.Tools)
		if out.answer != nil {
			page.Upgrades = out.Upgrades // only the first page has upgrades
		}
		out.Page, out.answer = page, map[string]json.RawMessage{}
		var rows []json.RawMessage
		// cannot fail: the answer was already decoded as a page
		_ = json.Unmarshal(a.Raw, &out.answer)
		_ = json.Unmarshal(out.answer["tools"], &rows)
		out.rows = append(out.rows, rows...)
		if step != nil && page.Next.Next != "" {
			step(len(page.Tools), page.Total)
		}
		return len(page.Tools), page.Next.Next
	})
	return out, err
}

// MarshalJSON implements [json.Marshaler]. It returns the answer of the API with the rows of all
// pages.
func (l *List) MarshalJSON() ([]byte, error) {
	out := maps.Clone(l.answer)
	for name, list := range map[string]any{"tools": l.rows, "upgrades": l.Upgrades} {
		data, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		if string(data) != "null" {
			out[name] = data
		}
	}
	return json.Marshal(out)
}
