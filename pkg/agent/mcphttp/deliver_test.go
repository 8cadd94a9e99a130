package mcphttp_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"testing"
)

// If the process continues to run after an answer, the gateway sends the answer before it writes
// the log line. So the client does not wait for the log.
func TestAnswerGoesBeforeItsLogLine(t *testing.T) {
	for _, method := range []string{"ping", "tools/list", "no/such/method"} {
		t.Run(method, func(t *testing.T) {
			w, lines := httptest.NewRecorder(), 0
			o := laptop()
			o.Log = slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
				if lines++; !w.Flushed || !bytes.HasSuffix(w.Body.Bytes(), []byte("}")) {
					t.Errorf("log line %s was written before the whole answer; the client has %q", line, w.Body)
				}
				return len(line), nil
			}), nil))
			newHandler(t, &backend{tools: `{"tools":[]}`}, o).ServeHTTP(w, legacy.request(t, method, ``))
			if lines != 1 {
				t.Errorf("%d log lines, want 1", lines)
			}
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
