package decide

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// A Paging asks for one page of a list.
type Paging struct {
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"how many entries at most"`
	After string `query:"after" maxLength:"2048" doc:"next of the page before; leave it out for the first page"`
}

// A Next leads to the page after this one.
type Next struct {
	Next string `json:"next,omitempty" doc:"send it as after to get the next page; absent: this is the last one"`
}

// cursorOf returns the cursor after an entry of a list. It names the entry and not its number, so
// that nothing is left out or repeated because other entries came or went meanwhile.
func cursorOf(list, entry string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + "\x00" + entry))
}

// entry returns the last entry of the page before, "" for the first page.
func (p Paging) entry(list string) (string, error) {
	if p.After == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.DecodeString(p.After)
	entry, ok := strings.CutPrefix(string(data), list+"\x00")
	if err != nil || !ok || entry == "" {
		return "", errCursor()
	}
	return entry, nil
}

func errCursor() error {
	return Refuse(http.StatusUnprocessableEntity, "after is not from a page of this list; begin again without it")
}

// Cut returns one page of entries, which are sorted by key: those after the last entry of the page
// before.
func Cut[T any](p Paging, list string, entries []T, key func(T) string) (page []T, next Next, err error) {
	last, err := p.entry(list)
	if err != nil {
		return nil, Next{}, err
	}
	page = []T{}
	for _, e := range entries {
		if key(e) <= last {
			continue
		}
		if len(page) == p.Limit {
			return page, Next{cursorOf(list, key(page[len(page)-1]))}, nil
		}
		page = append(page, e)
	}
	return page, Next{}, nil
}
