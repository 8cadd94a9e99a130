package request

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// CodeFor is how long a link to a future request can be opened.
const CodeFor = 24 * time.Hour

// A Code is a request that nobody has made yet, sealed in a link. So the gateway stores nothing
// when an agent calls a locked item.
type Code struct {
	Agent   Agent
	Item    tool.ID
	Hash    tool.Hash
	Status  lock.Status
	Expires int64 // Unix time
}

// SealCode returns the code as a text for a link. It is a bare list, because agents pay for each
// letter.
func SealCode(ctx context.Context, s *seal.Sealer, c Code, now time.Time) (string, error) {
	hash, err := hex.DecodeString(string(c.Hash))
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal([]string{
		c.Agent.Way, c.Agent.ID, c.Agent.Human, c.Agent.Subject, c.Item.String(), base64.RawStdEncoding.EncodeToString(hash), string(c.Status),
		strconv.FormatInt(now.Add(CodeFor).Unix(), 36),
	})
	if err != nil {
		return "", err
	}
	return s.Seal(ctx, seal.Ask, plain)
}

// OpenCode reads a code from a link. The error is [seal.ErrForged], even for an expired code, or
// [seal.ErrNoKey].
func OpenCode(ctx context.Context, s *seal.Sealer, text string, now time.Time) (Code, error) {
	plain, err := s.Open(ctx, seal.Ask, text)
	if err != nil {
		return Code{}, err
	}
	c, ok := readCode(plain)
	if !ok || now.Unix() >= c.Expires {
		return Code{}, seal.ErrForged
	}
	return c, nil
}

func readCode(plain []byte) (c Code, ok bool) {
	var list []string
	if json.Unmarshal(plain, &list) != nil || len(list) != 8 {
		return c, false
	}
	c.Agent, c.Status = Agent{Way: list[0], ID: list[1], Human: list[2], Subject: list[3]}, lock.Status(list[6])
	item, err := tool.ParseID(list[4])
	hash, unread := base64.RawStdEncoding.DecodeString(list[5])
	expires, late := strconv.ParseInt(list[7], 36, 64)
	c.Item, c.Hash, c.Expires = item, tool.Hash(hex.EncodeToString(hash)), expires
	return c, errors.Join(err, unread, late) == nil && len(hash) > 0 && c.Agent.Check() == nil
}
