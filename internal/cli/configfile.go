package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// A configFile is the config of a folder. It implements [decide.ConfigFile].
type configFile struct{ folder string }

func (f configFile) path() string {
	return filepath.Join(f.folder, filepath.FromSlash(config.Key))
}

// Read returns the file.
func (f configFile) Read() ([]byte, error) { return os.ReadFile(f.path()) }

// Set returns data with another value at a path below mcpServers, or without it if value is nil.
// All other bytes stay.
func (f configFile) Set(data []byte, at []string, value json.RawMessage) ([]byte, error) {
	return clientfile.SetJSON(f.path(), data, append([]string{"mcpServers"}, at...), value)
}

// Enable returns data with the server enabled or disabled; data itself if it already is.
func (f configFile) Enable(data []byte, server string, on bool) ([]byte, error) {
	return clientfile.EnableServer(f.path(), data, server, on)
}

// lockTime is how long a command waits for another writer of a folder.
const lockTime = 5 * time.Second

// Replace replaces the file, if it still has the content before, and keeps a copy of it that only
// its owner can read. After an error nothing has changed.
func (f configFile) Replace(
	ctx context.Context, before, after []byte,
) (backup string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	err = dir.New(f.folder).Exclusive(ctx, func() error {
		switch now, err := f.Read(); {
		case err != nil:
			return err
		case !bytes.Equal(now, before):
			return decide.ErrConfigChanged
		}
		if backup, err = backUp(f.path(), time.Now(), 0o600); err != nil {
			return fmt.Errorf("the old config cannot be kept: %w", err)
		}
		if err = replaceFile(f.path(), after, 0o644); err != nil {
			_ = os.Remove(backup) // the config is unchanged
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%w; nothing was changed", err)
	}
	return backup, nil
}
