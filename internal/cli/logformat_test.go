package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// messagesOf returns the messages of a log. Every line must be a JSON object with time and level.
func messagesOf(t *testing.T, log string) (messages []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var l struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time == "" || l.Level == "" ||
			l.Msg == "" {
			t.Errorf("%q is no line of a JSON log: %v", line, err)
		}
		messages = append(messages, l.Msg)
	}
	return messages
}

// With PORTCULLIS_LOG_FORMAT=json, standard error has only JSON, even at an error that ends
// the program.
func TestJSONLog(t *testing.T) {
	env := map[string]string{"PORTCULLIS_LOG_FORMAT": "json"}
	t.Run("a start and an end", func(t *testing.T) {
		s := upstreamtest.New(t, upstreamtest.Options{})
		dir := t.TempDir()
		programtest.WriteConfig(
			t,
			dir,
			fmt.Sprintf(
				`{"mcpServers": {"s": {"url": %q}, "x": {"command": "no\nprogram"}}}`,
				s.URL,
			),
		)
		p := startWith(t, env, dir)
		p.Call("retrieve_tools", `{"query":"a\nb"}`)
		require.OK(t, p.stop())
		messages := strings.Join(messagesOf(t, p.log.String()), "\n")
		for _, want := range []string{"catalog synced", "mcp request", "gateway is draining"} {
			if !strings.Contains(messages, want) {
				t.Errorf("the log lacks %q:\n%s", want, messages)
			}
		}
	})
	t.Run("a port that is taken", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.OK(t, err)
		defer l.Close()
		log := &local.Buffer{}
		err = run(
			t.Context(),
			[]string{"serve", "--dir", t.TempDir(), "--addr", l.Addr().String()},
			&environment{
				getenv: func(name string) string { return env[name] }, stdout: log, stderr: log,
			},
		)
		if code := exitCode(err, log); code != exitFault {
			t.Errorf("exit code %d", code)
		}
		if got := messagesOf(t, log.String()); len(got) != 1 ||
			!strings.Contains(log.String(), "nothing was started") {
			t.Errorf("the log is %s", log)
		}
	})
}
