package decide

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// A Paging asks for one page of a list.
type Paging struct {
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"maximum number of entries"`
	After string `query:"after" maxLength:"2048" doc:"next of the previous page; omit it for the first page"`
}

// A Next has the cursor of the next page.
type Next struct {
	Next string `json:"next,omitempty" doc:"send it as after to get the next page; absent: this is the last one"`
}

// entry returns the n parts of the previous page's last entry; they are empty for the first page.
func (p Paging) entry(list string, n int) ([]string, error) {
	entry, ok := text.ReadCursor(list, p.After, n)
	if !ok {
		return nil, errCursor()
	}
	return entry, nil
}

func errCursor() error {
	return Refuse(http.StatusUnprocessableEntity, "after is not from a page of this list; begin again without it")
}

// Cut returns one page of entries, which are sorted by key: the entries after the last one of the
// previous page.
func Cut[T any](p Paging, list string, entries []T, key func(T) string) (page []T, next Next, err error) {
	last, err := p.entry(list, 1)
	if err != nil {
		return nil, Next{}, err
	}
	page = []T{}
	for _, e := range entries {
		if key(e) <= last[0] {
			continue
		}
		if len(page) == p.Limit {
			return page, Next{text.NewCursor(list, key(page[len(page)-1]))}, nil
		}
		page = append(page, e)
	}
	return page, Next{}, nil
}
