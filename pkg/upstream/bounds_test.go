package upstream

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestLongestResponse(t *testing.T) {
	const limit = 4 << 20
	response := func(before, after string, size int) *http.Response {
		body := before + strings.Repeat("x", size-len(before)-len(after)) + after
		return &http.Response{Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(size)}
	}
	const before, after = `{"jsonrpc":"2.0","id":1,"result":{"x":"`, `"}}`
	for _, tt := range []struct {
		name string
		size int
		want error
	}{{"at the limit", limit, nil}, {"one byte over", limit + 1, errTooLong}} {
		r, err := jsonReply(response(before, after, tt.size), 1)
		if !errors.Is(err, tt.want) || err == nil && len(r) != tt.size-len(before)-len(after)+len(`{"x":""}`) {
			t.Errorf("JSON %s: %d bytes, %v; want %v", tt.name, len(r), err, tt.want)
		}
		r, err = streamReply(response("data: "+before, after+"\n\n", tt.size), 1, time.Second, replyTo, nil)
		if !errors.Is(err, tt.want) || (err == nil) != (len(r) > 0) {
			t.Errorf("event stream %s: %d bytes, %v; want %v", tt.name, len(r), err, tt.want)
		}
	}
}

func TestRecordedBody(t *testing.T) {
	for size, whole := range map[int]bool{0: true, 4096: true, 4097: false, 10000: false} {
		x := &exchange{}
		text := strings.Repeat("ab", size/2) + strings.Repeat("c", size%2)
		n, err := io.Copy(io.Discard, &recordedBody{ReadCloser: io.NopCloser(strings.NewReader(text)), x: x})
		if err != nil || n != int64(size) {
			t.Fatalf("read %d bytes, %v", n, err)
		}
		if string(x.body) != text[:min(size, 4096)] || x.complete != whole {
			t.Errorf("of %d bytes %d are kept, complete %v; want %d, %v", size, len(x.body), x.complete, min(size, 4096), whole)
		}
	}
}
