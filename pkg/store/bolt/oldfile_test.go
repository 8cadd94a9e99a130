package bolt_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	lines "github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// oldNow is the time of the last write to files of the previous build.
var oldNow = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// An oldEntry is an entry of a bucket of the previous build, and the document that the conversion
// makes of it. A document without a key means that there is none. Without a bucket, the conversion
// makes the document of another entry.
type oldEntry struct {
	bucket, key, data string
	doc               document.Doc
}

const layout = "2006-01-02T15:04:05.000000000Z"

// oldEntries returns documents of each kind in the form of the previous build.
func oldEntries(t *testing.T) (all []oldEntry) {
	t.Helper()
	add := func(bucket, key string, data []byte, d document.Doc) {
		if d.Data == nil {
			d.Data = data
		}
		all = append(all, oldEntry{bucket, key, string(data), d})
	}
	at := func(part, id string, rev int64) document.Doc {
		return document.Doc{Key: document.Key{Part: part, ID: id}, Rev: rev}
	}
	addStops(t, add, at)
	addTokens(t, add, at)
	addRequests(t, add, at)
	addNotices(t, add, at)

	s := signin.Session{ID: strings.Repeat("5", 64), Actor: "kim", Rev: 6}
	s.Expires = oldNow.Add(time.Hour)
	_, data, err := s.Encode()
	require.OK(t, err)
	d := at("LOGIN#SESSIONS", s.ID, 7)
	d.Keep = s.Expires
	add("logins", s.ID, data, d)
	over := `{"id":"over","expires":"2026-11-22T12:00:00Z","rev":1}`
	add("logins", "over", []byte(over), document.Doc{})
	add("logins", "never", []byte(`{"id":"never","rev":1}`), document.Doc{})

	addBaselines(t, add, at)
	return all
}

type (
	addEntry func(bucket, key string, data []byte, d document.Doc)
	newDoc   func(part, id string, rev int64) document.Doc
)

// addBaselines adds a baseline by the name of a server, a baseline of an earlier identity, and a
// baseline in the present form. The first two also exist in the present form.
func addBaselines(t *testing.T, add addEntry, at newDoc) {
	t.Helper()
	byURL := func(b approval.Baseline) (data []byte, d document.Doc) {
		data, err := json.Marshal(b)
		require.OK(t, err)
		hash, kind, _ := strings.Cut(b.Key(), "#")
		return data, at("BASE#"+hash, kind, 1)
	}
	const github = `{"server":"github","url":"https://MCP.example.com/mcp/","at":"2026-03-14T15:00:00Z"}`
	add("baselines", "github", []byte(github), at("SRV#github", "BASELINE", 1))
	b := require.JSON[approval.Baseline](t, github)
	b.Identity, b.Kind = "https://mcp.example.com/mcp", approval.Tools
	data, d := byURL(b)
	add("", "", data, d)

	b = approval.Baseline{Identity: "http://127.0.0.1:3000/?x=1", Kind: approval.Prompts, Server: "near", At: oldNow}
	b.URL = "http://127.0.0.1:3000?x=1"
	data, d = byURL(b)
	add("firsts", b.Key(), data, d)
	b.Identity = "http://localhost:3000/"
	data, d = byURL(b)
	add("", "", data, d)

	b = approval.Baseline{Identity: "https://far.example.com/", Kind: approval.Prompts, Server: "far", At: oldNow}
	data, d = byURL(b)
	add("firsts", b.Key(), data, d)
}

func addStops(t *testing.T, add addEntry, at newDoc) {
	t.Helper()
	_, data, err := sampleStops().Encode()
	require.OK(t, err)
	add("stop", "stop", data, at("STOP", "STOP", 3))
}

// sampleStops has a stop in effect and an undone stop.
func sampleStops() stop.Stops {
	one := stop.Stop{Target: stop.Target{Server: "git"}, Reason: "it leaks", By: "kim", At: oldNow}
	ended := stop.Ended{Target: stop.Target{Agent: "token:ci"}, At: oldNow.Add(-time.Hour)}
	return stop.Stops{List: []stop.Stop{one}, Ended: []stop.Ended{ended}, Rev: 2}
}

// sampleToken returns the nth token, which no store has.
func sampleToken(n int, now time.Time) token.Token {
	return token.Token{
		ID: fmt.Sprintf("%020d", n), Hash: fmt.Sprintf("%064d", n), Name: fmt.Sprint("token", n),
		Servers:   []string{"*"},
		CreatedAt: now.Add(-time.Hour).UTC(), CreatedBy: "ann", ExpiresAt: now.Add(time.Hour).UTC(),
	}
}

func addTokens(t *testing.T, add addEntry, at newDoc) {
	t.Helper()
	for n := range 3 {
		x := sampleToken(n+1, oldNow)
		x.Rev = int64(n)
		d := at("TOKENS", x.ID, int64(n)+1)
		switch n {
		case 1:
			x = x.Revoke("kim", oldNow)
		case 2:
			d.Mark = "2026-11-22T11:00:00.000000000Z"
			add("token_uses", x.ID, []byte("2026-11-22T11:00:00Z"), document.Doc{})
		}
		_, data, err := x.Encode()
		require.OK(t, err)
		add("tokens", x.ID, data, d)
	}
	add("token_uses", "nobody", []byte("2026-11-22T11:00:00Z"), document.Doc{})
}

// manyTokens adds n tokens of a kilobyte each.
func manyTokens(entries []oldEntry, n int) []oldEntry {
	for i := range n {
		id := fmt.Sprintf("%020d", i+100)
		data := fmt.Sprintf(`{"id":%q,"note":%q,"rev":2}`, id, strings.Repeat("x", 1000))
		d := document.Doc{Key: document.Key{Part: "TOKENS", ID: id}, Data: []byte(data), Rev: 2}
		entries = append(entries, oldEntry{"tokens", id, data, d})
	}
	return entries
}

func addRequests(t *testing.T, add addEntry, at newDoc) {
	t.Helper()
	agent := request.Agent{Way: "token", ID: "token:ci"}
	r := request.Request{Status: lock.PendingApproval, Note: "for a <release> & more, 日本"}
	r = r.About(tool.ID{Server: "git", Name: "push"}, tool.Hash(strings.Repeat("a1", 32)))
	arguments := []byte("{\"b\": 1.0,\n\"bytes\":\"\xff\x00\"}")
	r.Args = request.HashArgs(json.RawMessage(`{"b":1}`))
	a, r, _, err := request.List{Agent: agent, Rev: 4}.Add(r, request.Granted{}, nil, oldNow)
	require.OK(t, err)
	_, data, err := a.Encode()
	require.OK(t, err)
	add("asked", agent.Key(), data, at("ASK#"+agent.Key(), "ASKED", 5))

	decision := request.Decide(r, request.Confirmed, 0, "kim", "", oldNow)
	g := request.Granted{Agent: agent, List: []request.Decision{decision}}
	_, data, err = g.Encode()
	require.OK(t, err)
	add("granted", agent.Key(), data, at("GRANT#"+agent.Key(), "GRANTED", 1))

	p := request.Pointer{Request: r.ID, Key: agent.Key(), Expires: r.Expires, KeepUntil: r.KeepUntil()}
	data, err = json.Marshal(p)
	require.OK(t, err)
	d := at("ASK#", r.ID, 1)
	d.Data, d.Mark, d.Keep = []byte(agent.Key()), r.Expires.Format(layout), r.KeepUntil()
	add("request_keys", r.ID, data, d)
	d = at("ASK#"+agent.Key(), "ARGS#"+r.ID, 1)
	d.Keep = r.Expires
	add("request_args", r.ID, arguments, d)
	add("request_args", "R-ofnobody", []byte("{}"), document.Doc{})

	keep := oldNow.Add(7*24*time.Hour + time.Minute)
	end := keep.Format(time.RFC3339Nano)
	data = fmt.Appendf(nil, `{"at":"2026-11-22T12:00:00.000001Z","keep":%q}`, end)
	d = at("USED#"+r.ID, "USED", 1)
	d.Data, d.Keep = []byte("2026-11-22T12:00:00.000001000Z"), keep
	add("requests_used", r.ID, data, d)
}

func addNotices(t *testing.T, add addEntry, at newDoc) {
	t.Helper()
	e := notify.Event{ID: "event-1", Kind: notify.RequestMade, At: oldNow, Server: "git", Path: "/admin"}
	n := notify.Notice{Event: e.Fit(oldNow), Put: oldNow, Due: oldNow, Rev: 1}
	_, data, err := n.Encode()
	require.OK(t, err)
	d := at("OUTBOX#OPEN", "event-1", 2)
	d.Mark, d.Keep = "event-1", oldNow.Add(30*notify.GiveUpAfter)
	add("outbox", "event-1", data, d)
	until := oldNow.Add(notify.Remember)
	d = at("OUTBOX#SEEN", "event-1", 1)
	d.Data, d.Keep = []byte("seen"), until
	add("outbox_ids", "event-1", binary.BigEndian.AppendUint64(nil, uint64(until.UnixNano())), d)
	gone := binary.BigEndian.AppendUint64(nil, uint64(oldNow.Add(-time.Hour).UnixNano()))
	add("outbox_ids", "event-0", gone, document.Doc{})
}

// oldBuckets are the buckets that the previous build made and this build does not read.
var oldBuckets = []string{
	"stop", "tokens", "token_uses", "logins", "asked", "granted", "request_keys", "request_args",
	"requests_used", "outbox", "outbox_ids", "baselines", "firsts",
}

// writeOld writes a file in the form of the previous build, with approvals, audit and documents.
func writeOld(t *testing.T, path string, entries []oldEntry) {
	t.Helper()
	s, err := bolt.Open(path, nil)
	require.OK(t, err)
	blocked := approved("bb")
	blocked.Blocked = []approval.Remembered{{Hash: tool.Hash(strings.Repeat("b1", 32))}}
	prompt := approval.Record{Server: "s", Tool: "p", Kind: tool.Prompt, State: approval.Pending}
	for _, r := range []approval.Record{approved("a"), blocked, prompt} {
		line := &approval.Entry{Server: "s", Tool: r.Tool, Kind: r.Kind, Actor: "kim", Action: "approve"}
		_, err := s.Put(t.Context(), r, line)
		require.OK(t, err)
	}
	l := lines.Line{V: 1, Time: oldNow, Kind: lines.KindEvent, Action: lines.ActionLogin}
	require.OK(t, s.Events().PutEvent(t.Context(), l))
	require.OK(t, s.Close())

	db, err := bbolt.Open(path, 0o600, nil)
	require.OK(t, err)
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"documents", "stop", "baselines"} {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return putOld(tx, entries)
	})
	require.OK(t, errors.Join(err, db.Close()))
}

// putOld writes into the buckets of the previous build, and makes missing buckets.
func putOld(tx *bbolt.Tx, entries []oldEntry) error {
	for _, name := range oldBuckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.bucket == "" {
			continue
		}
		if err := tx.Bucket([]byte(e.bucket)).Put([]byte(e.key), []byte(e.data)); err != nil {
			return err
		}
	}
	return nil
}
