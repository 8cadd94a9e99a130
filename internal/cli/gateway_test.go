package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// quiet returns an environment without input and output.
func quiet() *environment {
	return &environment{getenv: noEnv, stdin: strings.NewReader(""), stdout: new(strings.Builder), stderr: new(strings.Builder)}
}

func TestFolderIsAskedOrOpened(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	open := func() *gateway {
		t.Helper()
		g, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
		require.OK(t, err)
		_, err = client.Health.Do(t.Context(), g.Client, nil, nil)
		require.OK(t, err)
		return g
	}
	before := open()
	if !before.IsEmbedded() {
		t.Errorf("no gateway runs, but the command asks %s", before.Base)
	}
	before.close()
	p := start(t, dir)
	if g := open(); g.IsEmbedded() || g.Base != p.URL {
		t.Errorf("the gateway of the folder runs at %s, but the command asks %q", p.URL, g.Base)
	}
	if info, err := os.Stat(filepath.Join(dir, folder.InfoFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	left, err := os.ReadFile(filepath.Join(dir, folder.InfoFile))
	require.OK(t, err)
	require.OK(t, p.stop())
	if _, err := os.Stat(filepath.Join(dir, folder.InfoFile)); err == nil {
		t.Error("the info file still exists after the gateway ended")
	}
	// The file looks as it does after kill -9 if another process has the old process number.
	require.OK(t, os.WriteFile(filepath.Join(dir, folder.InfoFile), left, 0o600))
	after := open()
	if !after.IsEmbedded() {
		t.Errorf("the command sends its request to a killed gateway at %s", after.Base)
	}
	after.close()
	if _, err := os.Stat(filepath.Join(dir, folder.InfoFile)); err == nil {
		t.Error("the info file of a killed gateway was not removed")
	}
}

func TestTwoCommandsTakeTurns(t *testing.T) {
	t.Parallel()
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	g, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
	require.OK(t, err)
	time.AfterFunc(300*time.Millisecond, g.close)
	second, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
	require.OK(t, err)
	second.close()
	held, err := bolt.Open(filepath.Join(dir, folder.ApprovalsFile), nil)
	require.OK(t, err)
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := (gatewayFlags{placeFlags{Dir: dir}, "kim"}).open(ctx, quiet(), "test"); err == nil || !strings.Contains(err.Error(), "another process holds the file") {
		t.Errorf("open while another process holds the file: %v", err)
	}
}

func TestActorOfAGatewayThatRuns(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	start(t, dir)
	env := quiet()
	g, err := gatewayFlags{placeFlags{Dir: dir}, "somebody else"}.open(t.Context(), env, "test")
	require.OK(t, err)
	defer g.close()
	if said := env.stderr.(*strings.Builder).String(); !strings.Contains(said, "not --actor") {
		t.Errorf("--actor has no effect, and the warning is %q", said)
	}
}
