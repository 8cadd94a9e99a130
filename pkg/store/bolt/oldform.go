package bolt

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// An oldKind is a bucket of the previous build. doc returns the document for one of the bucket's
// keys, or none if the key has no document. If doc is nil, the conversion of another bucket reads
// this bucket.
type oldKind struct {
	bucket string
	what   string // names one document of the bucket in messages
	doc    func(tx *bbolt.Tx, id string, data []byte) (document.Doc, error)
}

// restoredKinds are the buckets that [Store.RestoreBackup] restores, stops first.
var restoredKinds = []oldKind{
	{"stop", "the list of stops", oldStopsDoc},
	{"tokens", "the token", oldToken},
	{"token_uses", "", nil},
	{"baselines", "the baseline of server", oldServerBaseline},
	{"firsts", "the baseline", oldBaseline},
	{"baselines", "the baseline of server", presentBaseline},
	{"firsts", "the baseline", presentBaseline},
}

// oldKinds are all buckets of the previous build.
var oldKinds = slices.Concat(restoredKinds, []oldKind{
	{"logins", "the session of a person", oldLogin},
	{"asked", "the list of requests of agent", oldAsked},
	{"granted", "the list of decisions about requests of agent", oldGranted},
	{"request_keys", "the place of request", oldPointer},
	{"request_args", "the arguments of request", oldArguments},
	{"requests_used", "the use of request", oldUse},
	{"outbox", "the notice of event", oldNotice},
	{"outbox_ids", "the time of event", oldEvent},
})

// The old buckets that stay, with marks. The only key in the bucket of stops is the
// name of the bucket.
var (
	oldStops     = []byte("stop")
	oldBaselines = []byte("baselines")
)

// stopsKey is the key of the document of all stops.
var stopsKey = stop.Key()

// tokenPart is the part in the keys of tokens.
const tokenPart = "TOKENS"

// keepNotice is the maximum time for which a notice is stored.
const keepNotice = 30 * 24 * time.Hour

// oldDoc returns a document at revision rev, or at revision 1 if rev is 0.
func oldDoc(part, id string, data []byte, rev int64) document.Doc {
	return document.Doc{Key: document.Key{Part: part, ID: id}, Data: data, Rev: max(rev, 1)}
}

// until returns d with an expiry. A zero time means that d has expired.
func until(d document.Doc, t time.Time) document.Doc {
	if d.Keep = t; t.IsZero() {
		d.Keep = time.Unix(0, 0)
	}
	return d
}

func oldStopsDoc(_ *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	if id != string(oldStops) {
		return document.Doc{}, nil
	}
	s, err := stop.Decode(data)
	if err != nil || !slices.Contains(s.List, markStop) {
		return oldDoc(stopsKey.Part, stopsKey.ID, data, s.Rev), err
	}
	s.List = slices.DeleteFunc(s.List, func(one stop.Stop) bool { return one == markStop })
	if len(s.List)+len(s.Ended) == 0 {
		return document.Doc{}, nil
	}
	s, data, err = s.Encode()
	return oldDoc(stopsKey.Part, stopsKey.ID, data, s.Rev), err
}

func oldToken(tx *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	used := ""
	if b := tx.Bucket([]byte("token_uses")); b != nil {
		used = string(b.Get([]byte(id)))
	}
	t, err := token.Decode(data, used)
	d := oldDoc(tokenPart, id, data, t.Rev)
	if used != "" {
		d.Mark = document.FormatTime(t.LastUsed)
	}
	return d, err
}

// oldLogin returns no document for a session that cannot be read, because it signs nobody in.
func oldLogin(_ *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	var s struct {
		Rev     int64     `json:"rev"`
		Expires time.Time `json:"expires"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return document.Doc{}, nil //nolint:nilerr // it signs nobody in
	}
	return until(oldDoc("LOGIN#SESSIONS", id, data, s.Rev), s.Expires), nil
}

func oldAsked(_ *bbolt.Tx, key string, data []byte) (document.Doc, error) {
	a, err := request.DecodeList(key, data)
	return oldDoc("ASK#"+key, "ASKED", data, a.Rev), err
}

func oldGranted(_ *bbolt.Tx, key string, data []byte) (document.Doc, error) {
	g, err := request.DecodeGranted(key, data)
	return oldDoc("GRANT#"+key, "GRANTED", data, g.Rev), err
}

func oldPointer(_ *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	var p request.Pointer
	err := json.Unmarshal(data, &p)
	if err == nil && p.Key == "" {
		err = errors.New("it does not say which agent made it")
	}
	d := until(oldDoc("ASK#", id, []byte(p.Key), 1), p.KeepUntil)
	d.Mark = document.FormatTime(p.Expires)
	return d, err
}

// oldArguments returns no document for arguments of an unknown request, because nobody could read
// them.
func oldArguments(tx *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	b := tx.Bucket([]byte("request_keys"))
	if b == nil || b.Get([]byte(id)) == nil {
		return document.Doc{}, nil
	}
	var p request.Pointer
	err := json.Unmarshal(b.Get([]byte(id)), &p)
	return until(oldDoc("ASK#"+p.Key, "ARGS#"+id, data, 1), p.Expires), err
}

func oldUse(_ *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	var use struct {
		At   time.Time `json:"at"`
		Keep time.Time `json:"keep"`
	}
	err := json.Unmarshal(data, &use)
	if err == nil && use.At.IsZero() {
		err = errors.New("it does not say when it was")
	}
	return until(oldDoc("USED#"+id, "USED", []byte(document.FormatTime(use.At)), 1), use.Keep), err
}

func oldNotice(_ *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	var n struct {
		Event struct {
			ID string `json:"id"`
		} `json:"event"`
		Put time.Time `json:"put"`
		Rev int64     `json:"rev"`
	}
	err := json.Unmarshal(data, &n)
	if err == nil && n.Event.ID == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		err = fmt.Errorf("stored notice: %w", err)
	}
	d := until(oldDoc("OUTBOX#OPEN", id, data, n.Rev), n.Put.Add(keepNotice))
	d.Mark = n.Event.ID
	return d, err
}

// oldEvent returns no document for a time that cannot be read. Then people may get the notice
// twice.
func oldEvent(_ *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	if len(data) != timeSize {
		return document.Doc{}, nil
	}
	d := oldDoc("OUTBOX#SEEN", id, []byte("seen"), 1)
	return until(d, time.Unix(0, int64(binary.BigEndian.Uint64(data)))), nil
}

func oldServerBaseline(_ *bbolt.Tx, server string, data []byte) (document.Doc, error) {
	if server == string(markKey) {
		return document.Doc{}, nil
	}
	var b approval.Baseline
	err := json.Unmarshal(data, &b)
	return oldDoc("SRV#"+server, "BASELINE", data, 1), err
}

func oldBaseline(_ *bbolt.Tx, key string, data []byte) (document.Doc, error) {
	var b approval.Baseline
	err := json.Unmarshal(data, &b)
	hash, kind, ok := strings.Cut(key, "#")
	if err == nil && (!ok || hash == "" || kind == "") {
		err = errors.New("its key has no kind")
	}
	return oldDoc("BASE#"+hash, kind, data, 1), err
}

// presentBaseline returns the present form of a baseline that an earlier version stored in another
// form. A reader looks up each baseline by its key, so it would not find the old key.
func presentBaseline(_ *bbolt.Tx, id string, data []byte) (document.Doc, error) {
	var b approval.Baseline
	if id == string(markKey) {
		return document.Doc{}, nil
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return document.Doc{}, err
	}
	now, isOld := b.Present()
	if !isOld {
		return document.Doc{}, nil
	}
	data, err := json.Marshal(now)
	hash, kind, _ := strings.Cut(now.Key(), "#")
	return oldDoc("BASE#"+hash, kind, data, 1), err
}
