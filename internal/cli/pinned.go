package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A pinnedItem is an item with the definition that the person has read.
type pinnedItem struct {
	ID   string    `json:"id"`
	Hash tool.Hash `json:"hash"`
	Rev  int64     `json:"rev"` // 0: unknown
}

// writable reports whether a line can name the item.
func (s pinnedItem) writable() bool {
	return text.Line(s.ID) == s.ID && !strings.HasPrefix(s.ID, "#")
}

// check returns an error if the id or the hash of the item is invalid.
func (s pinnedItem) check() error {
	if _, err := tool.ParseID(s.ID); err != nil {
		return fmt.Errorf("%s names no tool: want server:tool, server:prompt:name or server:resource:uri", text.Quote(s.ID, 128))
	}
	if _, ok := s.Hash.Sum(); !ok {
		return fmt.Errorf("%s is no hash of a definition: want 64 digits of lower-case hex", text.Quote(string(s.Hash), 80))
	}
	return nil
}

// maxPinned is the maximum size of a file of pinned items.
const maxPinned = 64 << 20

// readPinned reads the output of portcullis tools --hashes or -o json. "-" is standard input.
func readPinned(path string, stdin io.Reader) ([]pinnedItem, error) {
	from, name := stdin, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--seen: %w; nothing was decided", err)
		}
		defer f.Close() //nolint:errcheck // it was read only
		from, name = f, path
	}
	data, err := io.ReadAll(io.LimitReader(from, maxPinned))
	if err != nil {
		return nil, fmt.Errorf("--seen: %w; nothing was decided", err)
	}
	items, err := parsePinned(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--seen: %s: %w; nothing was decided", name, err)
	case len(items) == 0:
		return nil, fmt.Errorf("--seen: %s names nothing; nothing was decided", name)
	}
	return items, nil
}

func parsePinned(data []byte) (items []pinnedItem, err error) {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
		var list struct{ Tools []pinnedItem }
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("it begins like JSON, and is not the output of portcullis "+
				"tools -o json: %w", err)
		}
		for n, s := range list.Tools {
			if err := s.check(); err != nil {
				return nil, fmt.Errorf("item %d: %w", n+1, err)
			}
		}
		return list.Tools, nil
	}
	for n, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		s := pinnedItem{ID: line}
		if i := strings.LastIndexAny(line, " \t"); i >= 0 {
			s = pinnedItem{ID: strings.TrimSpace(line[:i]), Hash: tool.Hash(line[i+1:])}
		}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		items = append(items, s)
	}
	return items, nil
}
