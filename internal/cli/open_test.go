package cli

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestOpenSession(t *testing.T) {
	_, config := ping(t)
	dir, empty := t.TempDir(), t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	s := newTerminal(t, map[string]string{dir: "gate", empty: "empty"})
	s.must(1, "open", "--dir", dir)
	p := start(t, dir)
	s.must(0, "open", "--dir", dir)
	var opened []string
	s.browse = func(_ context.Context, at string) error { opened = append(opened, at); return nil }
	s.must(0, "open", "--dir", dir, "--page", "tools?status=pending_approval")
	s.must(0, "open", "--url", p.URL+"/mcp", "--page", "/admin/requests")
	if want := []string{p.URL + "/admin/tools?status=pending_approval", p.URL + "/admin/requests"}; !slices.Equal(opened, want) {
		t.Errorf("open opens %q, want %q", opened, want)
	}
	s.browse = func(context.Context, string) error { return errors.New("xdg-open is not installed") }
	s.must(0, "open", "--dir", dir)
	s.must(1, "open", "--dir", dir, "--page", "https://evil.example.com")
	s.must(1, "open", "--dir", dir, "--page", "../mcp")
	require.OK(t, p.stop())
	s.must(1, "open", "--dir", dir)
	s.must(1, "open", "--dir", empty)
	s.must(1, "open", "--url", "http://127.0.0.1:1")
	s.must(1, "open", "--url", "gate.example.com")
	s.check("open")
}
