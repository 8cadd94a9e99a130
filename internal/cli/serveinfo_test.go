package cli

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A gateway was killed. Another process now has its process number, and another program has its
// port. Several commands use the folder, and none of them sends the admin key to that program.
func TestKeyGoesToNoStranger(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := 0
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
	}))
	defer stranger.Close()
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	_, err := folder.AdminKey(t.Context(), dir, slog.New(slog.DiscardHandler))
	require.OK(t, err)
	info := folder.Info{Address: stranger.URL, PID: os.Getpid(), Key: true}
	for range 3 {
		require.OK(t, folder.WriteInfo(dir, info))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				g, err := gatewayFlags{placeFlags{Dir: dir}, "kim"}.open(t.Context(), quiet(), "test")
				if err != nil {
					t.Error(err)
					return
				}
				defer g.close()
				if !g.IsEmbedded() {
					t.Errorf("the command asks %s, but no gateway runs there", g.Base)
				}
				time.Sleep(3 * folder.Glance)
			})
		}
		both.Wait()
	}
	require.OK(t, folder.WriteInfo(dir, info))
	if s, runs, err := folder.Running(dir); runs || err != nil {
		t.Errorf("a gateway runs at %s: %v", s.Address, err)
	}
	if asked > 0 {
		t.Errorf("the foreign program got %d requests", asked)
	}
}

func TestKeyStaysOnThisMachine(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://[::1]:8080": true,
		"http://192.0.2.1:8080": false, "https://gate.example.com": false, "http://127.0.0.1.example.com": false, "http://127.0.0.1@evil.example": false,
	} {
		dir := t.TempDir()
		data, err := json.Marshal(folder.Info{Address: address, PID: os.Getpid(), Key: true})
		require.OK(t, err)
		require.OK(t, os.WriteFile(filepath.Join(dir, folder.InfoFile), data, 0o600))
		if _, got := folder.FindInfo(dir); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
