package server

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Every image has a version, because a new version of a base can change what a restart does.
func TestImagesArePinned(t *testing.T) {
	image := regexp.MustCompile(`(?m)^(?:FROM |COPY --from=| *image: )(\S+)`)
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z-]+)?$`)
	seen := 0
	for _, name := range []string{"infra/server/compose.yaml", "docs/install.md"} {
		data, err := os.ReadFile(repo.Path(name))
		require.OK(t, err)
		for _, m := range image.FindAllSubmatch(data, -1) {
			if seen++; !pinned.Match(m[1]) {
				t.Errorf("%s: the image %s has no version", name, m[1])
			}
		}
	}
	if seen < 4 {
		t.Errorf("found %d images: the pattern is broken", seen)
	}
}

// Compose reads the file, and finds the service of the gateway.
func TestCompose(t *testing.T) {
	for _, words := range [][]string{{"docker", "compose"}, {"podman-compose"}} {
		if exec.CommandContext(t.Context(), words[0], append(words[1:], "version")...).
			Run() !=
			nil {
			continue
		}
		cmd := exec.CommandContext(
			t.Context(),
			words[0],
			append(words[1:], "--file", repo.Path("infra/server/compose.yaml"), "config")...)
		cmd.Env = append(os.Environ(), "GATE_HOST=gate.example.com")
		cmd.Dir = filepath.Dir(repo.Path("infra/server/compose.yaml"))
		out, err := cmd.Output()
		if err != nil || !bytes.Contains(out, []byte("https://gate.example.com")) ||
			bytes.Contains(out, []byte("GATE_HOST")) {
			t.Errorf("%v: %v\n%s", cmd.Args, err, out)
		}
		return
	}
	t.Skip("not run: neither docker compose nor podman-compose is installed")
}
