package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

// A wire answers the requests of the real client, without a network.
type wire struct {
	answer func(r *http.Request) *http.Response
	seen   []*http.Request
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.seen = append(w.seen, r)
	answer := w.answer(r)
	answer.Request = r
	return answer, nil
}

func (w *wire) store() *s3.Store { return s3.New(client("http://s3.test", w), "bucket") }

// says returns an answer of S3. Each header is "Name: value".
func says(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		h.Set(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// fault is an error answer of S3.
func fault(status int, code string) *http.Response {
	return says(status, "<Error><Code>"+code+"</Code><Message>arn:aws:s3:::bucket</Message></Error>")
}

func TestConditionHeaders(t *testing.T) {
	w := &wire{answer: func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet {
			return says(http.StatusNotModified, "")
		}
		return says(http.StatusOK, "", `ETag: "new"`)
	}}
	s := w.store()
	if _, err := s.Get(t.Context(), "config/a b", `"old"`); !errors.Is(err, object.ErrNotModified) {
		t.Errorf("Get = %v, want ErrNotModified", err)
	}
	for _, ifMatch := range []string{"", object.IfAbsent, `"old"`} {
		if etag, err := s.Put(t.Context(), "config/a b", []byte("x"), ifMatch); err != nil || etag != `"new"` {
			t.Errorf("Put = %q, %v", etag, err)
		}
	}
	type conditions struct{ Path, IfMatch, IfNoneMatch string }
	var got []conditions
	for _, r := range w.seen {
		got = append(got, conditions{r.URL.EscapedPath(), r.Header.Get("If-Match"), r.Header.Get("If-None-Match")})
	}
	want := []conditions{
		{"/bucket/config/a%20b", "", `"old"`}, {"/bucket/config/a%20b", "", ""},
		{"/bucket/config/a%20b", "", "*"}, {"/bucket/config/a%20b", `"old"`, ""},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}

func TestGetAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer *http.Response
		want   error // nil: another error
	}{
		{"304 without a body", says(http.StatusNotModified, ""), object.ErrNotModified},
		{"304 with another code", fault(http.StatusNotModified, "SomethingElse"), object.ErrNotModified},
		{"no such key", fault(http.StatusNotFound, "NoSuchKey"), object.ErrNotFound},
		{"404 without a body", says(http.StatusNotFound, ""), object.ErrNotFound},
		{"no such bucket", fault(http.StatusNotFound, "NoSuchBucket"), nil},
		{"forbidden", fault(http.StatusForbidden, "AccessDenied"), nil},
		{"redirected to another region", fault(http.StatusMovedPermanently, "PermanentRedirect"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &wire{answer: func(*http.Request) *http.Response { return test.answer }}
			_, err := w.store().Get(t.Context(), "a", `"old"`)
			checkError(t, err, test.want)
		})
	}
}

// checkError checks that err is the wanted sentinel and no other.
func checkError(t *testing.T, err, want error) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v", want)
	}
	for _, sentinel := range []error{object.ErrNotModified, object.ErrNotFound, object.ErrConflict} {
		if errors.Is(err, sentinel) != errors.Is(want, sentinel) {
			t.Errorf("error is %v, want %v", err, want)
		}
	}
}

func TestPutAnswers(t *testing.T) {
	for _, test := range []struct {
		name     string
		refusal  *http.Response
		want     error
		unharmed bool // the stored object is from this write, which the client repeated
	}{
		{"changed since", fault(http.StatusPreconditionFailed, "PreconditionFailed"), object.ErrConflict, false},
		{"changed by this write", fault(http.StatusPreconditionFailed, "PreconditionFailed"), nil, true},
		{"another write at the same time", fault(http.StatusConflict, "ConditionalRequestConflict"), object.ErrConflict, false},
		{"no object to match", fault(http.StatusNotFound, "NoSuchKey"), object.ErrConflict, false},
		{"no such bucket", fault(http.StatusNotFound, "NoSuchBucket"), nil, false},
		{"forbidden", fault(http.StatusForbidden, "AccessDenied"), nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := new(wire)
			w.answer = func(r *http.Request) *http.Response {
				if r.Method == http.MethodPut {
					return test.refusal
				}
				id := "another's"
				if test.unharmed {
					id = w.seen[0].Header.Get("X-Amz-Meta-Write-Id")
				}
				return says(http.StatusOK, "data", `ETag: "held"`, "X-Amz-Meta-Write-Id: "+id)
			}
			etag, err := w.store().Put(t.Context(), "a", []byte("data"), `"old"`)
			if test.unharmed {
				if err != nil || etag != `"held"` {
					t.Errorf("Put = %q, %v, want the etag of the stored object", etag, err)
				}
				return
			}
			checkError(t, err, test.want)
		})
	}
}

func TestWriteID(t *testing.T) {
	w := &wire{answer: func(*http.Request) *http.Response { return says(http.StatusOK, "", `ETag: "e"`) }}
	s := w.store()
	ids := map[string]bool{}
	for i := range 3 {
		if _, err := s.Put(t.Context(), fmt.Sprint(i), nil, ""); err != nil {
			t.Fatal(err)
		}
		ids[w.seen[i].Header.Get("X-Amz-Meta-Write-Id")] = true
	}
	if len(ids) != 3 || ids[""] {
		t.Errorf("ids of three writes: %v", ids)
	}
}
