package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// targets are units of the system that the units of the gateway name, or that systemd adds.
const targets = "sysinit basic shutdown network-online multi-user timers time-set time-sync"

// installed returns a root folder with the units as docs/server.md installs them.
func installed(t *testing.T, dropIn bool) string {
	t.Helper()
	root := t.TempDir()
	units := filepath.Join(root, "etc/systemd/system")
	require.OK(t, os.MkdirAll(filepath.Join(units, "portcullis.service.d"), 0o755))
	require.OK(t, os.MkdirAll(filepath.Join(root, "usr/local/bin"), 0o755))
	require.OK(
		t,
		os.WriteFile(filepath.Join(root, "usr/local/bin/portcullis"), nil, 0o755),
	) // systemd checks that it can be started
	for name := range strings.FieldsSeq(targets) {
		require.OK(
			t,
			os.WriteFile(
				filepath.Join(units, name+".target"),
				[]byte("[Unit]\nDescription=of the system\n"),
				0o600,
			),
		)
	}
	for _, name := range []string{
		"portcullis.service", "portcullis-backup.service", "portcullis-backup.timer", "programs.conf",
	} {
		to := filepath.Join(units, name)
		if name == "programs.conf" {
			to = filepath.Join(units, "portcullis.service.d", name)
		}
		if name != "programs.conf" || dropIn {
			data, err := os.ReadFile(repo.Path("infra/server/" + name))
			require.OK(t, err)
			require.OK(t, os.WriteFile(to, data, 0o600))
		}
	}
	return root
}

// systemd-analyze accepts every line of the units, and rates how much a service could do to the
// machine. Docs name the rates.
func TestUnits(t *testing.T) {
	analyze := program(t, "systemd-analyze")
	for _, tt := range []struct {
		name, unit string
		dropIn     bool
		most       string // tenths; "": not a service
	}{
		{"gateway", "portcullis.service", false, "14"},
		{"gateway with programs", "portcullis.service", true, "16"},
		{"backup", "portcullis-backup.service", false, "12"},
		{"timer", "portcullis-backup.timer", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := "--root=" + installed(t, tt.dropIn)
			verify := exec.CommandContext(t.Context(), analyze, root, "--man=no", "verify", tt.unit)
			if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
			if tt.most == "" {
				return
			}
			rate := exec.CommandContext(t.Context(), analyze, root, "security", "--offline=true",
				"--threshold="+tt.most, tt.unit)
			if out, err := rate.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
