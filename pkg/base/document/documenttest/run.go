package documenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Clock is the time of a store under test.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a stopped clock that shows the present time.
func NewClock() *Clock { return &Clock{now: time.Now().UTC().Truncate(time.Microsecond)} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Kinds has one document of each kind that the product stores, with typical data.
var Kinds = map[string]document.Doc{
	"stops":            doc("STOP", "STOP", `{"list":[],"rev":1}`),
	"token":            doc("TOKENS", "agt_1", `{"id":"agt_1"}`),
	"login":            doc("LOGIN#SESSIONS", "s1", `{"id":"s1"}`),
	"upstream session": doc("SESSION#0a1b", "SESSION", "an id <of> a session & more"),
	"notice":           marked(doc("OUTBOX#OPEN", "17", `{"event":{"id":"e1"}}`), "e1"),
	"seen event":       doc("OUTBOX#SEEN", "e1", "seen"),
	"asked":            doc("ASK#token:ci", "ASKED", `{"list":[],"why":"日本 \u202e"}`),
	"arguments":        doc("ASK#token:ci", "ARGS#R-1", "{\"b\": 1.0,\n \"bytes\":\"\xff\xfe\x00\"}"),
	"pointer":          doc("ASK#", "R-1", "token:ci"),
	"granted":          doc("GRANT#token:ci", "GRANTED", `{"list":[]}`),
	"used":             doc("USED#R-1", "USED", "2026-11-22T12:00:00.000000000Z"),
	"page":             doc("PAGE#0a1b", "PAGE", "github"),
	"baseline":         doc("BASE#0a1b", "tools", `{"kind":"tools"}`),
}

func doc(part, id, data string) document.Doc {
	return document.Doc{Key: document.Key{Part: part, ID: id}, Data: []byte(data)}
}

func marked(d document.Doc, mark string) document.Doc {
	d.Mark = mark
	return d
}

// Run checks that a driver keeps the promises of [document.Store]. The function open returns a new,
// empty store of the driver, which uses now as its clock.
func Run(t *testing.T, open func(t *testing.T, now func() time.Time) document.Store) {
	t.Helper()
	for name, holds := range map[string]func(*testing.T, document.Store, *Clock){
		"absent": absent, "every kind": everyKind, "stale revision": staleRev, "second first": secondFirst,
		"negative revision": negativeRev, "delete": deleted, "batch": batch, "batch with a conflict": batchConflict,
		"refused": refused, "mark": mark, "expired": expired, "list": list, "many": many, "copies": copies,
		"racing": racing, "racing batches": racingBatches, "ended context": endedContext,
	} {
		t.Run(name, func(t *testing.T) {
			c := NewClock()
			holds(t, open(t, c.Now), c)
		})
	}
}

// RunLost checks that a write with a lost answer succeeds and takes effect once, although the
// driver sends it again. lose makes the store lose the answer to the next write.
func RunLost(t *testing.T, open func(t *testing.T) (s document.Store, lose func())) {
	for name, d := range Kinds {
		t.Run(name, func(t *testing.T) {
			s, lose := open(t)
			lose()
			put(t, s, d)
			got := want(t, s, d, 1)
			lose()
			put(t, s, got)
			want(t, s, d, 2)
		})
	}
	t.Run("batch", func(t *testing.T) {
		s, lose := open(t)
		lose()
		put(t, s, Kinds["asked"], Kinds["arguments"], Kinds["pointer"])
		for _, name := range []string{"asked", "arguments", "pointer"} {
			want(t, s, Kinds[name], 1)
		}
	})
}

func put(t *testing.T, s document.Store, docs ...document.Doc) {
	t.Helper()
	require.OK(t, s.PutDocs(t.Context(), docs...))
}

// get returns the document of a key.
func get(t *testing.T, s document.Store, key document.Key) document.Doc {
	t.Helper()
	docs, err := s.Docs(t.Context(), key)
	require.OK(t, err)
	if len(docs) != 1 || docs[0].Key != key {
		t.Fatalf("Docs(%q) = %+v", key, docs)
	}
	return docs[0]
}

// want checks the data, mark, expiry and revision of a document, and returns the document.
func want(t *testing.T, s document.Store, d document.Doc, rev int64) document.Doc {
	t.Helper()
	got := get(t, s, d.Key)
	if got.Rev != rev || !bytes.Equal(got.Data, d.Data) || got.Mark != d.Mark {
		t.Errorf("Docs(%q) = rev %d, %q, mark %q; want rev %d, %q, mark %q", d.Key, got.Rev, got.Data, got.Mark, rev, d.Data, d.Mark)
	}
	late := got.Keep.Sub(d.Keep) // a driver may keep whole seconds
	if got.Keep.IsZero() != d.Keep.IsZero() || late < 0 || late > 2*time.Second {
		t.Errorf("Docs(%q) is kept until %v, want %v", d.Key, got.Keep, d.Keep)
	}
	return got
}

// wantAbsent checks that the key has no document.
func wantAbsent(t *testing.T, s document.Store, key document.Key) {
	t.Helper()
	if got := get(t, s, key); got.Rev != 0 || got.Data != nil || got.Mark != "" || !got.Keep.IsZero() {
		t.Errorf("Docs(%q) = %+v, want nothing", key, got)
	}
}

// wantConflict checks that err names one of the keys.
func wantConflict(t *testing.T, err error, keys ...document.Key) {
	t.Helper()
	conflict, ok := errors.AsType[*document.ConflictError](err)
	if !ok || !errors.Is(err, document.ErrConflict) {
		t.Errorf("the error is %v, want a conflict", err)
		return
	}
	for _, key := range keys {
		if conflict.Key == key {
			return
		}
	}
	t.Errorf("the conflict is about %q, want one of %q", conflict.Key, keys)
}

func absent(t *testing.T, s document.Store, _ *Clock) {
	for _, d := range Kinds {
		wantAbsent(t, s, d.Key)
		if docs, all, err := s.ListDocs(t.Context(), d.Part); err != nil || !all || len(docs) != 0 {
			t.Errorf("ListDocs(%q) = %+v, %v, %v", d.Part, docs, all, err)
		}
		if err := s.TouchDoc(t.Context(), d.Key, "m"); !errors.Is(err, document.ErrNotFound) {
			t.Errorf("TouchDoc(%q) = %v, want ErrNotFound", d.Key, err)
		}
		wantAbsent(t, s, d.Key)
	}
	if docs, err := s.Docs(t.Context()); err != nil || len(docs) != 0 {
		t.Errorf("Docs() = %+v, %v", docs, err)
	}
	put(t, s)
}

func everyKind(t *testing.T, s document.Store, c *Clock) {
	var keys []document.Key
	for name, d := range Kinds {
		t.Run(name, func(t *testing.T) {
			put(t, s, d)
			got := want(t, s, d, 1)
			got.Keep = c.Now().Add(time.Hour)
			if got.Mark == "" { // the mark of a notice never changes
				got.Mark = "a mark"
			}
			put(t, s, got)
			want(t, s, got, 2)
		})
		keys = append(keys, d.Key)
	}
	keys = append(keys, document.Key{Part: "TOKENS", ID: "agt_2"})
	docs, err := s.Docs(t.Context(), keys...)
	require.OK(t, err)
	for i, d := range docs {
		if d.Key != keys[i] || (d.Rev != 2) != (d.ID == "agt_2") {
			t.Errorf("document %d of %d is %q at rev %d, want %q", i, len(docs), d.Key, d.Rev, keys[i])
		}
	}
}

func staleRev(t *testing.T, s document.Store, _ *Clock) {
	for _, d := range Kinds {
		put(t, s, d)
		first := get(t, s, d.Key)
		put(t, s, first)
		for _, rev := range []int64{1, 3, 100} {
			stale := first
			stale.Rev = rev
			wantConflict(t, s.PutDocs(t.Context(), stale), d.Key)
			stale.Data = nil
			wantConflict(t, s.PutDocs(t.Context(), stale), d.Key)
		}
		want(t, s, d, 2)
	}
}

func secondFirst(t *testing.T, s document.Store, _ *Clock) {
	for _, d := range Kinds {
		put(t, s, d)
		for _, rev := range []int64{0, -7} {
			second := d
			second.Rev = rev
			wantConflict(t, s.PutDocs(t.Context(), second), d.Key)
		}
		want(t, s, d, 1)
	}
}

func negativeRev(t *testing.T, s document.Store, _ *Clock) {
	d := Kinds["notice"]
	d.Rev = -41
	put(t, s, d)
	got := want(t, s, d, 42)
	put(t, s, got)
	want(t, s, d, 43)
}

func deleted(t *testing.T, s document.Store, _ *Clock) {
	for _, name := range []string{"login", "upstream session", "notice"} { // the deleted kinds
		d := Kinds[name]
		put(t, s, document.Doc{Key: d.Key})
		put(t, s, d)
		put(t, s, document.Doc{Key: d.Key, Rev: 1})
		wantAbsent(t, s, d.Key)
		put(t, s, document.Doc{Key: d.Key})
		wantConflict(t, s.PutDocs(t.Context(), document.Doc{Key: d.Key, Rev: 1}), d.Key)
		put(t, s, d)
		wantConflict(t, s.PutDocs(t.Context(), document.Doc{Key: d.Key}), d.Key)
		want(t, s, d, 1)
	}
}

func batch(t *testing.T, s document.Store, c *Clock) {
	asked, args, pointer := Kinds["asked"], Kinds["arguments"], Kinds["pointer"]
	pointer.Keep, pointer.Mark = c.Now().Add(time.Hour), "2026-11-22T12:00:00.000000000Z"
	put(t, s, asked, args, pointer)
	want(t, s, asked, 1)
	want(t, s, args, 1)
	want(t, s, pointer, 1)
	var docs []document.Doc
	for i := range document.MaxPut {
		docs = append(docs, doc("ASK#", fmt.Sprintf("R-%02d", i), "token:ci"))
	}
	put(t, s, docs...)
	for _, d := range docs {
		want(t, s, d, 1)
	}
}

func batchConflict(t *testing.T, s document.Store, _ *Clock) {
	asked, args, pointer := Kinds["asked"], Kinds["arguments"], Kinds["pointer"]
	put(t, s, pointer)
	wantConflict(t, s.PutDocs(t.Context(), asked, pointer, args), pointer.Key)
	wantAbsent(t, s, asked.Key)
	wantAbsent(t, s, args.Key)
	want(t, s, pointer, 1)
	put(t, s, asked)
	late := pointer
	late.Rev = 1
	wantConflict(t, s.PutDocs(t.Context(), late, asked, args), asked.Key)
	want(t, s, pointer, 1)
	put(t, s, args)
	wantConflict(t, s.PutDocs(t.Context(), pointer, asked), pointer.Key, asked.Key)
}

func refused(t *testing.T, s document.Store, _ *Clock) {
	var many []document.Doc
	for i := range document.MaxPut + 1 {
		many = append(many, doc("ASK#", fmt.Sprint("R-", i), "token:ci"))
	}
	for name, docs := range map[string][]document.Doc{
		"too many": many, "twice": {many[0], many[1], many[0]}, "no id": {many[0], doc("ASK#", "", "a")}, "no part": {doc("", "R-1", "a")},
	} {
		if err := s.PutDocs(t.Context(), docs...); err == nil || errors.Is(err, document.ErrConflict) {
			t.Errorf("%s: PutDocs = %v, want a refusal", name, err)
		}
	}
	wantAbsent(t, s, many[0].Key)
}

func mark(t *testing.T, s document.Store, _ *Clock) {
	d := Kinds["token"]
	put(t, s, d)
	require.OK(t, s.TouchDoc(t.Context(), d.Key, "2026-11-22T12:00:00.000000000Z"))
	d.Mark = "2026-11-22T12:00:00.000000000Z"
	got := want(t, s, d, 1)
	got.Data, got.Mark = []byte(`{"id":"agt_1","revoked":true}`), ""
	put(t, s, got) // a write without a mark keeps the stored mark
	got.Mark = d.Mark
	got = want(t, s, got, 2)
	require.OK(t, s.TouchDoc(t.Context(), d.Key, "2026-11-23T12:00:00.000000000Z"))
	put(t, s, got) // a touch does not change the revision
	want(t, s, got, 3)
}

func expired(t *testing.T, s document.Store, c *Clock) {
	keep := c.Now().Add(time.Minute)
	for _, d := range Kinds {
		d.Keep, d.Mark = keep, "a mark"
		put(t, s, d)
	}
	c.Advance(time.Minute - time.Microsecond)
	for _, d := range Kinds {
		d.Keep, d.Mark = keep, "a mark"
		want(t, s, d, 1)
	}
	c.Advance(3 * time.Second)
	for name, d := range Kinds {
		t.Run(name, func(t *testing.T) {
			wantAbsent(t, s, d.Key)
			if docs, all, err := s.ListDocs(t.Context(), d.Part); err != nil || !all || len(docs) != 0 {
				t.Errorf("ListDocs(%q) = %+v, %v, %v", d.Part, docs, all, err)
			}
			if name == "token" {
				return // a role that touches tokens may not read their expiry
			}
			if err := s.TouchDoc(t.Context(), d.Key, "m"); !errors.Is(err, document.ErrNotFound) {
				t.Errorf("TouchDoc = %v, want ErrNotFound", err)
			}
		})
	}
	for _, d := range Kinds {
		late := d
		late.Rev = 1
		wantConflict(t, s.PutDocs(t.Context(), late), d.Key)
	}
	for _, d := range Kinds {
		put(t, s, d)
		if got := get(t, s, d.Key); got.Rev != 1 || !bytes.Equal(got.Data, d.Data) || !got.Keep.IsZero() {
			t.Errorf("%q after a new first write = %+v", d.Key, got)
		}
	}
}

func list(t *testing.T, s document.Store, _ *Clock) {
	docs := []document.Doc{doc("ASK#", "R-1", "b"), doc("ASK#", "R-10", "c"), doc("ASK#", "R-2", "a")}
	put(t, s, docs[2], docs[0])
	put(t, s, docs[1])
	put(t, s, doc("ASK#R-1", "ASKED", "{}"), doc("USED#R-1", "USED", "t"))
	got, all, err := s.ListDocs(t.Context(), "ASK#")
	require.OK(t, err)
	for i := range docs {
		docs[i].Rev = 1
	}
	if d := cmp.Diff(docs, got); d != "" || !all {
		t.Errorf("ListDocs, all: %v (-want +got):\n%s", all, d)
	}
}

// many lists documents that have more bytes than one page of a table.
func many(t *testing.T, s document.Store, c *Clock) {
	long := strings.Repeat("x", 60<<10)
	for i := range 40 {
		d := doc("LOGIN#SESSIONS", fmt.Sprintf("s%02d", i), long)
		d.Keep = c.Now().Add(time.Hour)
		put(t, s, d)
	}
	got, all, err := s.ListDocs(t.Context(), "LOGIN#SESSIONS")
	require.OK(t, err)
	if len(got) != 40 || !all {
		t.Fatalf("ListDocs = %d documents, all: %v; want 40", len(got), all)
	}
	for i, d := range got {
		if d.ID != fmt.Sprintf("s%02d", i) || string(d.Data) != long {
			t.Errorf("document %d is %q with %d bytes", i, d.ID, len(d.Data))
		}
	}
}

func copies(t *testing.T, s document.Store, _ *Clock) {
	d := Kinds["asked"]
	mine := d
	mine.Data = bytes.Clone(d.Data)
	put(t, s, mine)
	clear(mine.Data)
	got := want(t, s, d, 1)
	clear(got.Data)
	want(t, s, d, 1)
}

func racing(t *testing.T, s document.Store, _ *Clock) {
	d := Kinds["granted"]
	inParallel(t, 12, func(ctx context.Context) error {
		_, err := document.Retry(ctx, document.ErrConflict, func() (struct{}, error) {
			docs, err := s.Docs(ctx, d.Key)
			if err != nil {
				return struct{}{}, err
			}
			docs[0].Data = append(docs[0].Data, '.')
			return struct{}{}, s.PutDocs(ctx, docs[0])
		})
		return err
	})
	if got := get(t, s, d.Key); got.Rev != 12 || len(got.Data) != 12 {
		t.Errorf("after 12 writers at the same time: rev %d, %d bytes", got.Rev, len(got.Data))
	}
}

// racingBatches checks that exactly one of several overlapping batches succeeds, and that
// no other batch stores a part of its documents.
func racingBatches(t *testing.T, s document.Store, _ *Clock) {
	var mu sync.Mutex
	won := 0
	n := 0
	inParallel(t, 8, func(ctx context.Context) error {
		mu.Lock()
		n++
		own := doc("ASK#", fmt.Sprint("R-", n), "token:ci")
		mu.Unlock()
		err := s.PutDocs(ctx, own, Kinds["seen event"])
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			won++
		} else if !errors.Is(err, document.ErrConflict) {
			return err
		}
		return nil
	})
	if docs, _, err := s.ListDocs(t.Context(), "ASK#"); err != nil || won != 1 || len(docs) != 1 {
		t.Errorf("%d batches succeeded, and %d documents are stored, %v; want 1 and 1", won, len(docs), err)
	}
}

func inParallel(t *testing.T, n int, do func(ctx context.Context) error) {
	t.Helper()
	errs := make(chan error, n)
	for range n {
		go func() { errs <- do(t.Context()) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func endedContext(t *testing.T, s document.Store, _ *Clock) {
	d := Kinds["token"]
	put(t, s, d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, docsErr := s.Docs(ctx, d.Key)
	_, _, listErr := s.ListDocs(ctx, d.Part)
	for name, err := range map[string]error{
		"Docs": docsErr, "ListDocs": listErr, "TouchDoc": s.TouchDoc(ctx, d.Key, "m"), "PutDocs": s.PutDocs(ctx, document.Doc{Key: d.Key, Data: []byte("x"), Rev: 1}),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want context.Canceled", name, err)
		}
	}
	want(t, s, d, 1)
}
