package request

import (
	"context"
	"encoding/json"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/seal"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// codeFor is how long a link to a request that nobody has made yet can be opened.
const codeFor = 24 * time.Hour

// A Code is a request that nobody has made yet, as it stands sealed in a link: nothing is written because
// an agent met a lock.
type Code struct {
	Agent   Agent       `json:"a"`
	Item    tool.ID     `json:"i"`
	Hash    tool.Hash   `json:"h"`
	Status  lock.Status `json:"s"`
	Expires int64       `json:"e"` // Unix time
}

// SealCode returns the code as a text for a link.
func SealCode(ctx context.Context, s *seal.Sealer, c Code, now time.Time) (string, error) {
	c.Expires = now.Add(codeFor).Unix()
	plain, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	return s.Seal(ctx, seal.Ask, plain)
}

// OpenCode reads a code out of a link. The error is [seal.ErrForged], also of one that has expired, or
// [seal.ErrNoKey].
func OpenCode(ctx context.Context, s *seal.Sealer, text string, now time.Time) (c Code, err error) {
	plain, err := s.Open(ctx, seal.Ask, text)
	if err != nil {
		return Code{}, err
	}
	if json.Unmarshal(plain, &c) != nil || c.Agent.Check() != nil || c.Item.Name == "" || c.Hash == "" || now.Unix() >= c.Expires {
		return Code{}, seal.ErrForged
	}
	return c, nil
}
