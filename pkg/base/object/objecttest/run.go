package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// Run checks each promise of [object.Store] in its own subtest. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) object.Store) {
	for _, promise := range []struct {
		name string
		held func(*testing.T, object.Store)
	}{
		{"a key without an object is not found", missing},
		{"data comes back byte for byte", roundTrip},
		{"a caller that changes its data does not change the object", ownData},
		{"a read with the current etag is not modified", notModified},
		{"a write replaces", replaces},
		{"a write with the current etag succeeds", ifMatch},
		{"a write with an old etag is a conflict and stores nothing", staleETag},
		{"a write with an etag to a key without an object is a conflict", etagOfNothing},
		{"a write with IfAbsent succeeds once", ifAbsent},
		{"racing first writers have one winner", racingFirst},
		{"racing writers have one winner per etag", racing},
		{"a reader never sees half a write", wholeReads},
		{"each key has its own object", keys},
		{"a removed object is not found, and its key is free", removes},
		{"removing an absent object is no error and removes no other object", removesNothing},
		{"a list of a folder has the objects in it and below it, and no others", lists},
		{"a list of a folder with many objects is complete", listsMany},
		{"bad keys are refused", badKeys},
		{"an ended context stores nothing", endedContext},
	} {
		t.Run(promise.name, func(t *testing.T) { promise.held(t, open(t)) })
	}
}

// RunLost checks that a store recognizes its own conditional write after the answer was lost: Put
// succeeds, and does not return a conflict. open returns an empty store and a function. After a
// call of that function, the store keeps the next write and loses its answer.
func RunLost(t *testing.T, open func(t *testing.T) (s object.Store, loseNext func())) {
	const key = "catalog/current.json"
	s, loseNext := open(t)
	loseNext()
	etag, err := s.Put(t.Context(), key, []byte("one"), object.IfAbsent)
	if err != nil {
		t.Fatalf("first Put, its answer lost: %v", err)
	}
	if o := get(t, s, key); o.ETag != etag || string(o.Data) != "one" {
		t.Errorf("Get = %q, %q; Put said %q", o.Data, o.ETag, etag)
	}
	loseNext()
	next, err := s.Put(t.Context(), key, []byte("two"), etag)
	if err != nil {
		t.Fatalf("second Put, its answer lost: %v", err)
	}
	if o := get(t, s, key); o.ETag != next || string(o.Data) != "two" {
		t.Errorf("Get = %q, %q; Put said %q", o.Data, o.ETag, next)
	}
	loseNext()
	if _, err := s.Put(t.Context(), key, []byte("three"), etag); !errors.Is(err, object.ErrConflict) {
		t.Errorf("Put of an old etag, its answer lost: %v, want ErrConflict", err)
	}
	loseNext() // a write of another writer is a conflict, even with the same data
	if _, err := s.Put(t.Context(), key, []byte("two"), object.IfAbsent); !errors.Is(err, object.ErrConflict) {
		t.Errorf("Put of the same data with IfAbsent: %v, want ErrConflict", err)
	}
}

func get(t *testing.T, s object.Store, key string) object.Object {
	t.Helper()
	o, err := s.Get(t.Context(), key, "")
	if err != nil {
		t.Fatalf("Get(%q): %v", key, err)
	}
	return o
}

func put(t *testing.T, s object.Store, key, data, ifMatch string) string {
	t.Helper()
	etag, err := s.Put(t.Context(), key, []byte(data), ifMatch)
	if err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
	if etag == "" || etag == object.IfAbsent {
		t.Fatalf("Put(%q) returned the etag %q", key, etag)
	}
	return etag
}

// holds checks the stored data and ETag of key.
func holds(t *testing.T, s object.Store, key, data, etag string) {
	t.Helper()
	if o := get(t, s, key); string(o.Data) != data || o.ETag != etag {
		t.Errorf("%q holds %q with etag %s, want %q with %s", key, o.Data, o.ETag, data, etag)
	}
}

func missing(t *testing.T, s object.Store) {
	for _, ifNoneMatch := range []string{"", "abc", `"abc"`} {
		if _, err := s.Get(t.Context(), "config/none.json", ifNoneMatch); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("Get if none match %q = %v, want ErrNotFound", ifNoneMatch, err)
		}
	}
	put(t, s, "config/some.json", "x", "")
	for _, key := range []string{"config", "config/none.json", "config/some.json/more"} {
		if _, err := s.Get(t.Context(), key, ""); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("Get(%q) = %v, want ErrNotFound", key, err)
		}
	}
}

func roundTrip(t *testing.T, s object.Store) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, data := range map[string]string{
		"empty": "", "text": "{\"a\":1}\r\n", "every byte": string(all), "six megabytes": strings.Repeat(string(all), 6<<12),
	} {
		etag := put(t, s, "catalog/data", data, "")
		if o := get(t, s, "catalog/data"); string(o.Data) != data || o.ETag != etag {
			t.Errorf("%s: Get has %d bytes, etag %q; put %d bytes, etag %q", name, len(o.Data), o.ETag, len(data), etag)
		}
	}
}

func ownData(t *testing.T, s object.Store) {
	data := []byte("mine")
	if _, err := s.Put(t.Context(), "a", data, ""); err != nil {
		t.Fatal(err)
	}
	copy(data, "gone")
	first := get(t, s, "a")
	if string(first.Data) != "mine" {
		t.Errorf("stored %q after the caller wrote over its slice", first.Data)
	}
	copy(first.Data, "gone")
	if o := get(t, s, "a"); string(o.Data) != "mine" {
		t.Errorf("stored %q after a reader wrote over its slice", o.Data)
	}
}

func notModified(t *testing.T, s object.Store) {
	old := put(t, s, "a", "one", "")
	if o, err := s.Get(t.Context(), "a", old); !errors.Is(err, object.ErrNotModified) || o.Data != nil {
		t.Errorf("Get = %q, %v, want ErrNotModified", o.Data, err)
	}
	put(t, s, "a", "two", "")
	o, err := s.Get(t.Context(), "a", old)
	if err != nil || string(o.Data) != "two" {
		t.Errorf("Get after a change = %q, %v", o.Data, err)
	}
}

func replaces(t *testing.T, s object.Store) {
	one := put(t, s, "a", "one", "")
	two := put(t, s, "a", "2", "")
	if one == two {
		t.Error("other data has the same etag")
	}
	holds(t, s, "a", "2", two)
}

func ifMatch(t *testing.T, s object.Store) {
	etag := put(t, s, "a", "0", "")
	for i := range 3 {
		etag = put(t, s, "a", fmt.Sprint(i+1), etag)
	}
	holds(t, s, "a", "3", etag)
}

func conflict(t *testing.T, s object.Store, key, ifMatch string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, []byte("this must not be stored"), ifMatch); !errors.Is(err, object.ErrConflict) {
		t.Errorf("Put(%q) if match %q = %v, want ErrConflict", key, ifMatch, err)
	}
}

func staleETag(t *testing.T, s object.Store) {
	one := put(t, s, "a", "one", "")
	two := put(t, s, "a", "two", "")
	conflict(t, s, "a", one)
	holds(t, s, "a", "two", two)
}

func etagOfNothing(t *testing.T, s object.Store) {
	etag := put(t, s, "a", "one", "")
	conflict(t, s, "b", etag)
	if _, err := s.Get(t.Context(), "b", ""); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
}

func ifAbsent(t *testing.T, s object.Store) {
	etag := put(t, s, "a/b", "one", object.IfAbsent)
	conflict(t, s, "a/b", object.IfAbsent)
	holds(t, s, "a/b", "one", etag)
	put(t, s, "a/c", "one", object.IfAbsent)
}

// race runs n writers at once, each with its own data, and returns the winner's data and etag.
func race(t *testing.T, s object.Store, n int, key, ifMatch string) (data, etag string) {
	t.Helper()
	etags, errs := make([]string, n), make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			etags[i], errs[i] = s.Put(t.Context(), key, fmt.Appendf(nil, "writer %d after %s", i, ifMatch), ifMatch)
		})
	}
	close(gate)
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Errorf("writers %d and %d both won", won, i)
		case !errors.Is(err, object.ErrConflict):
			t.Errorf("writer %d: %v, want ErrConflict", i, err)
		}
	}
	if won < 0 {
		t.Fatal("no writer won")
	}
	return fmt.Sprintf("writer %d after %s", won, ifMatch), etags[won]
}

func racingFirst(t *testing.T, s object.Store) {
	data, etag := race(t, s, 16, "catalog/current.json", object.IfAbsent)
	holds(t, s, "catalog/current.json", data, etag)
}

func racing(t *testing.T, s object.Store) {
	etag := put(t, s, "catalog/current.json", "start", "")
	for range 5 {
		var data string
		data, etag = race(t, s, 8, "catalog/current.json", etag)
		holds(t, s, "catalog/current.json", data, etag)
	}
}

func wholeReads(t *testing.T, s object.Store) {
	const size = 200_000
	versions := [][]byte{bytes.Repeat([]byte("a"), size), bytes.Repeat([]byte("b"), size/2)}
	put(t, s, "k", string(versions[0]), "")
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 20 {
			if _, err := s.Put(t.Context(), "k", versions[i%2], ""); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true // read once more, at the last version
			default:
			}
			o, err := s.Get(t.Context(), "k", "")
			if err != nil {
				t.Error(err)
				return
			}
			if !bytes.Equal(o.Data, versions[0]) && !bytes.Equal(o.Data, versions[1]) {
				t.Errorf("read %d bytes that nobody wrote", len(o.Data))
				return
			}
		}
	})
	wg.Wait()
}

func keys(t *testing.T, s object.Store) {
	good := []string{
		"a", "A b", "a.b", "config/mcp_config.json", "config/policy.cedar", "config/a/b/c/d", "configs", "%2e%2e/x", "a..b", "~", "-rf", "été",
		"catalog/" + strings.Repeat("f", 64) + ".snap", strings.Repeat("k", 128), "a+b&c=d?e#f", "*absent*",
	}
	for _, key := range good {
		put(t, s, key, "data of "+key, object.IfAbsent)
	}
	for _, key := range good {
		if o := get(t, s, key); string(o.Data) != "data of "+key {
			t.Errorf("%q holds %q", key, o.Data)
		}
	}
}

func removes(t *testing.T, s object.Store) {
	etag := put(t, s, "catalog/a", "one", "")
	put(t, s, "catalog/b", "two", "")
	for range 2 {
		if err := s.Delete(t.Context(), "catalog/a"); err != nil {
			t.Fatal(err)
		}
		for _, ifNoneMatch := range []string{"", etag} {
			if o, err := s.Get(t.Context(), "catalog/a", ifNoneMatch); !errors.Is(err, object.ErrNotFound) {
				t.Errorf("Get after Delete = %q, %v, want ErrNotFound", o.Data, err)
			}
		}
	}
	conflict(t, s, "catalog/a", etag)
	holds(t, s, "catalog/b", "two", put(t, s, "catalog/b", "two", ""))
	holds(t, s, "catalog/a", "three", put(t, s, "catalog/a", "three", object.IfAbsent))
}

func removesNothing(t *testing.T, s object.Store) {
	if err := s.Delete(t.Context(), "catalog/a"); err != nil {
		t.Errorf("Delete in an empty store: %v", err)
	}
	etag := put(t, s, "catalog/a", "one", "")
	for _, key := range []string{"catalog", "catalog/b", "catalog/a/b", "other/a"} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("Delete(%q): %v", key, err)
		}
	}
	holds(t, s, "catalog/a", "one", etag)
}

func lists(t *testing.T, s object.Store) {
	listed(t, s, "catalog/servers", map[string]string{})
	want := map[string]string{}
	for _, key := range []string{"catalog/servers/a.found", "catalog/servers/=b.found", "catalog/servers/more/c"} {
		want[key] = put(t, s, key, key, "")
	}
	for _, key := range []string{"catalog/servers.json", "catalog/current.json", "config/catalog/servers/d"} {
		put(t, s, key, "other", "")
	}
	listed(t, s, "catalog/servers", want)
	if err := s.Delete(t.Context(), "catalog/servers/a.found"); err != nil {
		t.Fatal(err)
	}
	delete(want, "catalog/servers/a.found")
	want["catalog/servers/more/c"] = put(t, s, "catalog/servers/more/c", "changed", "")
	listed(t, s, "catalog/servers", want)
	for _, folder := range []string{"catalog/server", "catalog/servers/more/c", "none"} {
		listed(t, s, folder, map[string]string{})
	}
}

// listsMany stores more objects than S3 lists at once.
func listsMany(t *testing.T, s object.Store) {
	want := map[string]string{}
	for i := range 1005 {
		key := fmt.Sprintf("catalog/servers/s%d.found", i)
		want[key] = put(t, s, key, key, "")
	}
	listed(t, s, "catalog/servers", want)
}

// listed checks the listing of a folder.
func listed(t *testing.T, s object.Store, folder string, want map[string]string) {
	t.Helper()
	got, err := s.List(t.Context(), folder)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("List(%q) has %d objects, %v; want %d: %.300v", folder, len(got), err, len(want), got)
	}
}

func badKeys(t *testing.T, s object.Store) {
	for _, key := range []string{
		"", "/", "/etc/passwd", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", ".hidden", "a/.tmp-x", ".lock",
		`a\b`, `..\a`, "a\x00b", "a\nb", "\xff", strings.Repeat("k", 129), strings.Repeat("k/", 256) + "k",
	} {
		if _, err := s.Put(t.Context(), key, []byte("x"), ""); !errors.Is(err, object.ErrKey) {
			t.Errorf("Put(%q) = %v, want ErrKey", key, err)
		}
		if _, err := s.Get(t.Context(), key, ""); !errors.Is(err, object.ErrKey) {
			t.Errorf("Get(%q) = %v, want ErrKey", key, err)
		}
		if _, err := s.List(t.Context(), key); !errors.Is(err, object.ErrKey) {
			t.Errorf("List(%q) = %v, want ErrKey", key, err)
		}
		if err := s.Delete(t.Context(), key); !errors.Is(err, object.ErrKey) {
			t.Errorf("Delete(%q) = %v, want ErrKey", key, err)
		}
	}
}

func endedContext(t *testing.T, s object.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, "a", []byte("late"), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	if _, err := s.Get(ctx, "a", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want context.Canceled", err)
	}
	if _, err := s.List(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("List = %v, want context.Canceled", err)
	}
	if _, err := s.Get(t.Context(), "a", ""); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("the late write was kept: %v", err)
	}
	etag := put(t, s, "b", "kept", "")
	if err := s.Delete(ctx, "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete = %v, want context.Canceled", err)
	}
	holds(t, s, "b", "kept", etag)
}
