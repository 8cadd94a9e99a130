package admintest

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A ConfigFile is the config of a fixture, as a file that people change. It implements
// [decide.ConfigFile].
type ConfigFile struct {
	D        *Fixture
	Replaced func() error // called before the file is replaced; nil: none
	mu       sync.Mutex
}

// Read implements [decide.ConfigFile].
func (f *ConfigFile) Read() ([]byte, error) {
	o, err := f.D.Objects.Get(context.Background(), config.Key, "")
	return o.Data, err
}

// Set implements [decide.ConfigFile].
func (*ConfigFile) Set(data []byte, at []string, value json.RawMessage) ([]byte, error) {
	return clientfile.SetJSON("", data, append([]string{"mcpServers"}, at...), value)
}

// Enable implements [decide.ConfigFile].
func (*ConfigFile) Enable(data []byte, server string, on bool) ([]byte, error) {
	return clientfile.EnableServer("", data, server, on)
}

// Replace implements [decide.ConfigFile].
func (f *ConfigFile) Replace(ctx context.Context, before, after []byte) (string, error) {
	if f.Replaced != nil {
		if err := f.Replaced(); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := f.Read()
	if err == nil && !bytes.Equal(now, before) {
		err = decide.ErrConfigChanged
	}
	if err == nil {
		_, err = f.D.Objects.Put(ctx, config.Key, after, "")
	}
	return "copy", err
}
