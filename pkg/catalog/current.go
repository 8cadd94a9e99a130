package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// CurrentKey is where the object store holds the [Current] catalog, current.json in other comments.
//
// Each generation of the format has its own key. A new generation begins when an earlier program
// cannot read the file or its shards, that is, when [Format] or the version of shards grows. So
// programs of two releases have their catalogs beside each other: during a deploy, and after a
// return to the earlier release.
const CurrentKey = "catalog/current-2.json"

// earlierKeys are the keys of the two generations before, newest first. A program reads them until
// its first sync has written [CurrentKey], and never writes them.
var earlierKeys = []string{"catalog/current.json"}

// CurrentKeys returns the keys under which this program looks for a catalog, in order.
func CurrentKeys() []string { return append([]string{CurrentKey}, earlierKeys...) }

// getCurrent reads current.json, or the file of an earlier generation if there is none. match is
// the ETag with which a sync replaces current.json, [object.IfAbsent] if there is none. held is the
// ETag of the file that the caller has; if that file is the newest, the error is
// [object.ErrNotModified].
func getCurrent(ctx context.Context, objects object.Store, held string) (o object.Object, match string, err error) {
	for _, key := range CurrentKeys() {
		o, err = objects.Get(ctx, key, held)
		if match = o.ETag; errors.Is(err, object.ErrNotModified) {
			match = held
		}
		if key != CurrentKey || errors.Is(err, object.ErrNotFound) {
			match = object.IfAbsent
		}
		if !errors.Is(err, object.ErrNotFound) {
			break
		}
	}
	return o, match, err
}

// Key returns where the shard with this SHA-256 is stored.
func Key(sha256 string) string { return "catalog/" + sha256 + ".snap" }

// ErrUnusable says that the stored catalog cannot be used: it is damaged, or made by another
// version of the program. The next sync replaces it.
var ErrUnusable = errors.New("stored catalog cannot be used")

// Format is the format number of current.json. It grows only if an earlier program would misread
// the new format. A new member needs no new number, since programs keep unknown members. Format 1
// has no list of shards: the snapshot is one shard.
const Format = 2

// ErrNewer says that the stored catalog has a format that only a newer program reads.
var ErrNewer = errors.New("stored catalog is of a newer version of the program")

// A Current says which snapshot is the catalog, and holds the outcome of each server.
type Current struct {
	// Save sets Format. 0: the program that wrote the file had no format numbers.
	Format    int               `json:"format"`
	SHA256    string            `json:"sha256"`             // of the snapshot
	Shards    []Shard           `json:"shards"`             // of the snapshot, in their order
	Size      int               `json:"size"`               // bytes of the snapshot
	Tools     int               `json:"tools"`              // number of tools in the snapshot
	Config    string            `json:"config"`             // version of the config that the sync used
	StartedAt time.Time         `json:"started_at"`         // when that sync began
	SyncedAt  time.Time         `json:"synced_at"`          // when it ended: the catalog's age counts from here
	StoredAt  time.Time         `json:"stored_at,omitzero"` // in format 1: when the snapshot's object was last written
	Outcomes  []outcome.Outcome `json:"outcomes"`           // by server name, of the servers that were ever tried
	Failed    *Failure          `json:"failed,omitempty"`   // why later syncs failed; nil: none
	// Restored is how many approval records the store had lost and no person has confirmed since.
	Restored int `json:"restored,omitempty"`
	// Forgotten are the servers whose decisions both the store and the catalog lost.
	Forgotten []string      `json:"forgotten,omitempty"`
	Rebuilt   []string      `json:"rebuilt,omitempty"` // servers whose tools come from their approval records
	Servers   []ServerState `json:"servers"`           // the configured ones, by name; null: made by an earlier version of the program
	// Baselines are the [approval.BaselineKey] of lists that counted as a server's first list, even
	// of removed servers.
	Baselines []string `json:"baselines"`

	Superseded []Superseded    `json:"superseded,omitempty"` // replaced shards whose objects may still exist, oldest first
	Unknown    rawjson.Members `json:"-"`                    // members of a newer program; Save keeps them
}

// A Shard describes a part of the snapshot, which is a separate object.
type Shard struct {
	SHA256   string    `json:"sha256"`
	Size     int       `json:"size"`            // bytes, as it is read
	Tools    int       `json:"tools"`           // number of tools in the shard
	Items    int       `json:"items,omitempty"` // number of prompts and resources in the shard
	First    string    `json:"first"`           // the first server in the shard
	StoredAt time.Time `json:"stored_at"`       // when the object of the shard was last written
}

// A Superseded is a shard that is no longer part of the catalog.
type Superseded struct {
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"` // when it was replaced
}

func parseCurrent(data []byte) (Current, error) {
	var cur Current
	unknown, err := rawjson.Unmarshal(data, &cur)
	if err != nil {
		return Current{}, fmt.Errorf("load catalog: %s: %w: %w", CurrentKey, ErrUnusable, err)
	}
	if cur.Unknown = unknown; cur.Format > Format {
		return Current{}, fmt.Errorf("load catalog: %s: %w: format %d, this program reads %d", CurrentKey, ErrNewer, cur.Format, Format)
	}
	if cur.Format < 2 {
		cur.Shards = []Shard{{SHA256: cur.SHA256, Size: cur.Size, Tools: cur.Tools, StoredAt: cur.StoredAt}}
		cur.StoredAt = time.Time{}
	}
	sums := make([]string, len(cur.Shards))
	for i, part := range cur.Shards {
		if sums[i] = part.SHA256; len(part.SHA256) != 64 || strings.Trim(part.SHA256, "0123456789abcdef") != "" {
			return Current{}, fmt.Errorf("load catalog: %s: %w: sha256 is %q", CurrentKey, ErrUnusable, part.SHA256)
		}
	}
	if len(sums) == 0 || digest(sums) != cur.SHA256 {
		return Current{}, fmt.Errorf("load catalog: %s: %w: sha256 %q does not match its %d shards", CurrentKey, ErrUnusable, cur.SHA256, len(sums))
	}
	return cur, nil
}

// parseHead parses current.json without the members about each server, which are most of it.
func parseHead(data []byte) (Current, error) {
	if o, err := rawjson.Split(data, rawjson.Lenient); err == nil { // else parseCurrent fails
		data = slices.DeleteFunc(o, func(m rawjson.Member) bool { return slices.Contains(ofServers, m.Name) }).Bytes()
	}
	return parseCurrent(data)
}

// ofServers are the members of current.json about each server.
var ofServers = []string{"outcomes", "servers", "baselines"}

func (cur Current) encode() ([]byte, error) {
	return rawjson.Marshal(cur, cur.Unknown)
}

// As returns s with the outcomes of the argument other, which is the same catalog after another
// sync.
func (s *Snapshot) As(other *Snapshot) *Snapshot { return s.with(other.current, other.etag) }

// with returns s with the outcomes of cur.
func (s *Snapshot) with(cur Current, etag string) *Snapshot {
	c := *s
	c.current, c.etag = cur, etag
	c.servers = slices.Clone(s.servers)
	outcomes := make(map[string]*outcome.Outcome, len(cur.Outcomes))
	for i := range cur.Outcomes {
		outcomes[cur.Outcomes[i].ServerID] = &cur.Outcomes[i]
	}
	for i := range c.servers {
		c.servers[i].Outcome = outcome.Outcome{}
		if o := outcomes[c.servers[i].Name]; o != nil {
			c.servers[i].Outcome = *o
		}
	}
	return &c
}

// Save stores the shards of s. Then it writes current.json, which names these shards, if the ETag
// of current.json is still ifMatch ([object.IfAbsent]: there is no current.json yet). It returns s
// as [Load] would. cur is stored with s; Save fills its Format, SHA256, Shards, Size and Tools. A
// shard in cur.Shards is stored already and is not written.
//
// The order makes an interruption harmless: a shard that nothing points to is never read.
func Save(ctx context.Context, objects object.Store, s *Snapshot, cur Current, ifMatch string) (*Snapshot, error) {
	shards := make([]Shard, len(s.shards))
	for i, part := range s.shards {
		shards[i] = part.entry()
		if at := slices.IndexFunc(cur.Shards, func(known Shard) bool { return known.SHA256 == shards[i].SHA256 }); at >= 0 {
			shards[i].StoredAt = cur.Shards[at].StoredAt
			continue
		}
		if _, err := objects.Put(ctx, Key(shards[i].SHA256), part.blob, ""); err != nil {
			return nil, fmt.Errorf("store catalog %s: %w", shards[i].SHA256, err)
		}
		shards[i].StoredAt = cur.SyncedAt
	}
	cur.Format, cur.SHA256, cur.Shards, cur.Size, cur.Tools = Format, s.SHA256(), shards, s.Size(), s.Len()
	data, err := cur.encode()
	if err != nil {
		return nil, fmt.Errorf("store catalog: %w", err)
	}
	etag, err := objects.Put(ctx, CurrentKey, data, ifMatch)
	if err != nil {
		return nil, fmt.Errorf("make %s the current catalog: %w", cur.SHA256, err)
	}
	return s.with(cur, etag), nil
}

// entry returns the shard's entry in current.json, except the time at which it was stored.
func (s *shard) entry() Shard {
	return Shard{SHA256: s.sum(), Size: len(s.blob), Tools: s.tools, Items: s.items() - s.tools, First: strings.TrimSuffix(s.first(), ":")}
}

// stored returns the shards that both s and next contain, and that were stored after the time
// after.
func (s *Snapshot) stored(next *Snapshot, after time.Time) (list []Shard) {
	for _, known := range s.current.Shards {
		is := func(part *shard) bool { return part.sha256 == known.SHA256 }
		if known.StoredAt.After(after) && slices.ContainsFunc(s.shards, is) && slices.ContainsFunc(next.shards, is) {
			list = append(list, known)
		}
	}
	return list
}
