package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

// CurrentKey is where the object store holds the [Current] catalog.
const CurrentKey = "catalog/current.json"

// Key returns where the snapshot with this SHA-256 is stored.
func Key(sha256 string) string { return "catalog/" + sha256 + ".snap" }

// ErrUnusable says that a stored catalog is there and cannot be used: damaged,
// or made by another version of the program. The next sync replaces it.
var ErrUnusable = errors.New("stored catalog cannot be used")

// Format is the number of the form that this program writes current.json in. It grows only if a
// program that knows an earlier form would go wrong with it; a member more is no new form,
// since programs keep what they do not know.
const Format = 1

// ErrNewer says that the stored catalog is in a form that only a newer program knows.
var ErrNewer = errors.New("stored catalog is of a newer version of the program")

// A Current says which snapshot is the catalog, and how the sync that said so
// found each server.
type Current struct {
	Format    int               `json:"format"`             // set as it is stored; 0: stored before forms were counted
	SHA256    string            `json:"sha256"`             // of the snapshot
	Size      int               `json:"size"`               // bytes of the snapshot
	Tools     int               `json:"tools"`              // how many it holds
	Config    string            `json:"config"`             // version of the config that the sync used
	StartedAt time.Time         `json:"started_at"`         // when that sync began
	SyncedAt  time.Time         `json:"synced_at"`          // when it ended: the catalog's age counts from here
	StoredAt  time.Time         `json:"stored_at"`          // when the snapshot object was last written
	Outcomes  []outcome.Outcome `json:"outcomes"`           // by server name, of the servers that were ever tried
	Failed    *Failure          `json:"failed,omitempty"`   // syncs after this one fail; nil: none did
	Restored  int               `json:"restored,omitempty"` // approval records that the store had lost and nobody has settled yet
	Rebuilt   []string          `json:"rebuilt,omitempty"`  // servers whose tools come from their approval records
	Servers   []Known           `json:"servers"`            // the configured ones, by name; null: made by an earlier version of the program
	Baselines []string          `json:"baselines"`          // [approval.BaselineKey] of the lists that were taken, of servers that left as well

	Superseded []Superseded    `json:"superseded,omitempty"` // snapshots whose objects may still be there, the one that was replaced first first
	Unknown    rawjson.Members `json:"-"`                    // what else a newer program wrote; it is kept
}

// A Superseded is a snapshot that another one took the place of.
type Superseded struct {
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"` // when
}

// Load returns the current catalog. held is the one that the caller has, or
// nil: it is returned itself if nothing is newer, and its blob is shared if
// only outcomes are. It returns [object.ErrNotFound] if no sync has ended yet,
// and [ErrUnusable] if what is stored cannot be used.
func Load(ctx context.Context, objects object.Store, held *Snapshot) (*Snapshot, error) {
	s, _, _, err := load(ctx, objects, held, Decode)
	return s, err
}

// load is [Load] with the function that opens the blob. It also returns
// current.json and its ETag, even if what it points to cannot be used.
func load(ctx context.Context, objects object.Store, held *Snapshot, open func([]byte) (*Snapshot, error)) (s *Snapshot, cur Current, etag string, err error) {
	if held != nil {
		etag = held.etag
	}
	o, err := objects.Get(ctx, CurrentKey, etag)
	if errors.Is(err, object.ErrNotModified) {
		return held, held.current, etag, nil
	}
	if err != nil {
		return nil, cur, "", fmt.Errorf("load catalog: %w", err)
	}
	if cur, err = parseCurrent(o.Data); err != nil {
		return nil, cur, o.ETag, err
	}
	if held != nil && held.sha256 == cur.SHA256 {
		return held.with(cur, o.ETag), cur, o.ETag, nil
	}
	blob, err := objects.Get(ctx, Key(cur.SHA256), "")
	if errors.Is(err, object.ErrNotFound) {
		return nil, cur, o.ETag, fmt.Errorf("load catalog %s: %w: its object is missing", cur.SHA256, ErrUnusable)
	}
	if err != nil {
		return nil, cur, o.ETag, fmt.Errorf("load catalog %s: %w", cur.SHA256, err)
	}
	if s, err = open(blob.Data); err != nil {
		return nil, cur, o.ETag, err
	}
	if s.sha256 != "" && s.sha256 != cur.SHA256 {
		return nil, cur, o.ETag, fmt.Errorf("load catalog %s: %w: its SHA-256 is %s", cur.SHA256, ErrUnusable, s.sha256)
	}
	s.sha256 = cur.SHA256
	return s.with(cur, o.ETag), cur, o.ETag, nil
}

func parseCurrent(data []byte) (Current, error) {
	var cur Current
	unknown, err := rawjson.Unmarshal(data, &cur)
	if err != nil {
		return Current{}, fmt.Errorf("load catalog: %s: %w: %w", CurrentKey, ErrUnusable, err)
	}
	if cur.Unknown = unknown; cur.Format > Format {
		return Current{}, fmt.Errorf("load catalog: %s: %w: form %d, this program knows %d", CurrentKey, ErrNewer, cur.Format, Format)
	}
	if len(cur.SHA256) != 64 || strings.Trim(cur.SHA256, "0123456789abcdef") != "" {
		return Current{}, fmt.Errorf("load catalog: %s: %w: sha256 is %q", CurrentKey, ErrUnusable, cur.SHA256)
	}
	return cur, nil
}

func (cur Current) encode() ([]byte, error) {
	return rawjson.Marshal(cur, cur.Unknown)
}

// with returns s as it stands beside cur.
func (s *Snapshot) with(cur Current, etag string) *Snapshot {
	c := *s
	c.current, c.etag = cur, etag
	c.servers = slices.Clone(s.servers)
	for i := range c.servers {
		c.servers[i].Outcome = outcome.Outcome{}
		if at := slices.IndexFunc(cur.Outcomes, func(o outcome.Outcome) bool { return o.ServerID == c.servers[i].Name }); at >= 0 {
			c.servers[i].Outcome = cur.Outcomes[at]
		}
	}
	return &c
}

// Save stores s, then moves current.json to it if that object's ETag is still
// ifMatch ([object.IfAbsent]: there is none yet), and returns s as [Load]
// would. cur says what stands beside s; its Format, SHA256, Size and Tools are
// filled in. If cur.StoredAt is not zero the snapshot's object is known to be there and is not written.
//
// The order makes an interruption harmless: a snapshot that nothing points to is never read.
func Save(ctx context.Context, objects object.Store, s *Snapshot, cur Current, ifMatch string) (*Snapshot, error) {
	cur.Format, cur.SHA256, cur.Size, cur.Tools = Format, s.SHA256(), len(s.blob), s.Len()
	if cur.StoredAt.IsZero() {
		if _, err := objects.Put(ctx, Key(cur.SHA256), s.blob, ""); err != nil {
			return nil, fmt.Errorf("store catalog %s: %w", cur.SHA256, err)
		}
		cur.StoredAt = cur.SyncedAt
	}
	data, err := cur.encode()
	if err != nil {
		return nil, fmt.Errorf("store catalog: %w", err)
	}
	etag, err := objects.Put(ctx, CurrentKey, data, ifMatch)
	if err != nil {
		return nil, fmt.Errorf("move catalog to %s: %w", cur.SHA256, err)
	}
	return s.with(cur, etag), nil
}
