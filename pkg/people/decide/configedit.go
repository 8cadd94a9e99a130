package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A ConfigFile is the config in the folder of a gateway.
type ConfigFile interface {
	Read() ([]byte, error)

	// Set returns data with another value at a path below mcpServers, or without it if value is
	// nil. All other bytes stay.
	Set(data []byte, at []string, value json.RawMessage) ([]byte, error)

	// Enable returns data with the server enabled or disabled; data itself if it already is.
	Enable(data []byte, server string, on bool) ([]byte, error)

	// Replace replaces the file, if it still has the content before, and keeps a copy of it. If the
	// file has other content, it returns [ErrConfigChanged]. After an error nothing has changed.
	Replace(ctx context.Context, before, after []byte) (backup string, err error)
}

// ErrConfigChanged says that the config has other content than the caller saw.
var ErrConfigChanged = errors.New("somebody else changed the config at this moment: try again")

// errSeenOther refuses a form that was made from another version of the config.
var errSeenOther = Refuse(http.StatusConflict, "somebody changed mcp_config.json after you opened "+
	"this page, so nothing was written; look at its current state, and write again")

// A StoredConfig is the config in the gateway's folder, as a form needs it.
type StoredConfig struct {
	Version string // SHA-256 of the file, which a change names
	Servers []string

	data []byte
	cfg  *config.Config
}

// CanEditConfig reports whether people can change the config here.
func (d *Service) CanEditConfig() bool { return d.o.Config != nil }

// EditURL returns the address at which people change the config, or "".
func (d *Service) EditURL(ctx context.Context) string {
	if cfg := d.states.Load(ctx).Config; cfg != nil {
		return cfg.EditURL
	}
	return ""
}

// StoredConfig returns the stored config. It refuses a file that the gateway refuses, because a
// change of such a file would not take effect.
func (d *Service) StoredConfig(ctx context.Context) (out StoredConfig, err error) {
	if d.o.Config == nil {
		return out, Refuse(http.StatusNotImplemented, "nothing was changed, because this gateway "+
			"cannot write mcp_config.json: change the file where it is kept")
	}
	if out.data, err = d.o.Config.Read(); err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelError, "config not read", slog.Any("error", err))
		return out, Refuse(http.StatusServiceUnavailable, "nothing was changed, because "+
			"mcp_config.json cannot be read; the log names the cause")
	}
	if out.cfg, err = config.Parse(out.data); err != nil {
		return out, Refuse(http.StatusConflict, "nothing was changed, because the stored "+
			"mcp_config.json has faults; correct the file first: "+faultText(err))
	}
	out.Version = object.Version(out.data)
	for _, s := range out.cfg.Servers {
		out.Servers = append(out.Servers, s.Name)
	}
	return out, nil
}

// faultText returns the faults of a config in one line, without their places.
func faultText(err error) string {
	var out []string
	for _, f := range faultsOf(err) {
		out = append(out, strings.TrimPrefix(f.Path+": "+f.Message, ": "))
	}
	return text.Clip(text.Line(strings.Join(out, "; ")), 1000)
}

// An EditedConfig is the result of a change of the config.
type EditedConfig struct {
	Changed  bool
	Recorded bool // the audit has the change
	Listed   bool // the gateway already uses the change
}

// Server returns a stored server, as a form describes it, and its settings. Both lack the values
// that no page shows.
func (c StoredConfig) Server(name string) (config.Draft, Settings, error) {
	s, ok := c.cfg.Server(name)
	if !ok {
		return config.Draft{}, Settings{}, errNoServer
	}
	shown := settingsOf(s)
	names := func(sep string, all []string) (out []string) {
		for _, n := range all {
			out = append(out, n+sep+config.Unchanged)
		}
		return out
	}
	if s.Command == nil {
		return config.Draft{URL: config.Unchanged, Headers: names(": ", shown.Headers)}, shown, nil
	}
	command := []string{config.Unchanged}
	return config.Draft{Command: command, Env: names("=", shown.Env), Cwd: shown.Cwd}, shown, nil
}

// SaveServer adds a server to the config or, if it is old, changes it. version is the version of
// the config that the person saw.
func (d *Service) SaveServer(
	ctx context.Context, name string, draft config.Draft, old bool, version string,
) (EditedConfig, error) {
	action := audit.ActionServerAdded
	if old {
		action = audit.ActionServerChanged
	}
	return d.editConfig(ctx, name, action, version, func(c StoredConfig) ([]byte, error) {
		return d.withServer(c, name, draft, old)
	})
}

// withServer returns the config with the described server.
func (d *Service) withServer(
	c StoredConfig, name string, draft config.Draft, old bool,
) ([]byte, error) {
	entry, err := draft.Entry()
	if err != nil {
		return nil, invalid("%s", err)
	}
	same := func(s string) bool { return strings.EqualFold(s, name) }
	switch i := slices.IndexFunc(c.Servers, same); {
	case old && !slices.Contains(c.Servers, name):
		return nil, errNoServer
	case !old && i >= 0:
		return nil, invalid("name: mcp_config.json already has the server %q; choose another "+
			"name, or edit that server", c.Servers[i])
	case !old && draft.KeepsValue():
		return nil, errNothingKept
	case !old:
		return d.o.Config.Set(c.data, []string{name}, entry.Bytes())
	}
	if err := c.checkKept(name, draft); err != nil {
		return nil, err
	}
	root, err := rawjson.Parse(c.data)
	if err != nil {
		return nil, err // not reached: the config was parsed
	}
	was, data := root.Get("mcpServers").Get(name), c.data
	for _, member := range []string{"url", "headers", "command", "args", "env", "cwd"} {
		value := entry.Get(member)
		if rawjson.Text(value) == config.Unchanged || member == "args" && isKept(draft.Command) {
			continue
		}
		if member == "headers" || member == "env" {
			if value, err = keepValues(value, was.Get(member)); err != nil {
				return nil, err
			}
		}
		if data, err = d.o.Config.Set(data, []string{name, member}, value); err != nil {
			return nil, err
		}
	}
	return data, nil
}

var errNothingKept = invalid("a header or variable is %s, but there is no value to keep: write "+
	"the value, as a reference if it is a secret", config.Unchanged)

var errNoServer = Refuse(http.StatusNotFound, "mcp_config.json has no server of this name")

func isKept(command []string) bool { return slices.Equal(command, []string{config.Unchanged}) }

// checkKept refuses to keep values that no page shows, if the server moves to another host or
// program: the person could make the gateway send them there.
func (c StoredConfig) checkKept(name string, draft config.Draft) error {
	was, _ := c.cfg.Server(name)
	if (was.Command == nil) != (len(draft.Command) == 0) {
		return invalid("a server with a URL cannot become a command, nor the reverse: add a server")
	}
	moves := !isKept(draft.Command) || was.Command != nil && draft.Cwd != was.Command.Dir
	if was.Command == nil {
		moves = draft.URL != config.Unchanged && config.HostOf(draft.URL) != config.HostOf(was.URL)
	}
	if moves && draft.KeepsValue() {
		return invalid("the server gets another host or command, so no value can stay unchanged: " +
			"write the headers or variables again, secrets as references")
	}
	return nil
}

// keepValues returns an object in which the member of the same name of was replaces
// [config.Unchanged]. nil means no object.
func keepValues(value json.RawMessage, was *rawjson.Node) (json.RawMessage, error) {
	if value == nil {
		return nil, nil
	}
	now, err := rawjson.Parse(value)
	if err != nil {
		return nil, err
	}
	out := rawjson.Object{}
	for name, v := range now.All() {
		raw := v.Raw
		if v.Text == config.Unchanged {
			old := was.Get(name)
			for key, kid := range was.All() {
				if old == nil && strings.EqualFold(key, name) { // pages show canonical names of headers
					old = kid
				}
			}
			if old == nil {
				return nil, errNothingKept
			}
			raw = old.Raw
		}
		out.Add(name, raw)
	}
	return out.Bytes(), nil
}

// EnableServer enables or disables a server in the config. version is the version of the config
// that the person saw.
func (d *Service) EnableServer(
	ctx context.Context, name string, on bool, version string,
) (EditedConfig, error) {
	action := audit.ActionServerDisabled
	if on {
		action = audit.ActionServerEnabled
	}
	return d.editConfig(ctx, name, action, version, func(c StoredConfig) ([]byte, error) {
		if !slices.Contains(c.Servers, name) {
			return nil, errNoServer
		}
		return d.o.Config.Enable(c.data, name, on)
	})
}

// editConfig changes the config, records the change and loads the server.
func (d *Service) editConfig(
	ctx context.Context, name, action, version string, change func(StoredConfig) ([]byte, error),
) (out EditedConfig, err error) {
	stored, err := d.StoredConfig(ctx)
	if err != nil {
		return out, err
	}
	if stored.Version != version {
		return out, errSeenOther
	}
	after, err := change(stored)
	if err != nil {
		return out, err
	}
	if bytes.Equal(after, stored.data) {
		return EditedConfig{Recorded: true, Listed: true}, nil
	}
	if _, err := config.Parse(after); err != nil {
		return out, invalid("a gateway would refuse the resulting mcp_config.json, so nothing was "+
			"written: %s", faultText(err))
	}
	_, err = d.o.Config.Replace(ctx, stored.data, after)
	switch {
	case errors.Is(err, ErrConfigChanged):
		return out, errSeenOther
	case err != nil:
		d.o.Log.LogAttrs(ctx, slog.LevelError, "config not written", slog.Any("error", err))
		return out, Refuse(http.StatusServiceUnavailable, "nothing was changed, because "+
			"mcp_config.json could not be written: the log names the cause")
	}
	out.Changed = true
	out.Recorded = d.Record(ctx, audit.Line{
		Action: action, Subject: audit.AboutServer + ":" + name, Note: fmt.Sprintf(
			"mcp_config.json changed from %.12s to %.12s", stored.Version, object.Version(after)),
	}) == nil
	if d.o.Syncer != nil {
		// Without this sync, the next one would use the change within seconds.
		_, err := d.o.Syncer.SyncServers(context.WithoutCancel(ctx), []string{name})
		d.states.Refresh(ctx)
		_, findErr := d.findServer(ctx, d.View(ctx), name)
		out.Listed = err == nil && findErr == nil
	}
	return out, nil
}
