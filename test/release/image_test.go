package release

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const platform = "linux/" + runtime.GOARCH // TARGETPLATFORM of the image

// dockerfile returns the instructions of the Dockerfile, each with its words.
func dockerfile(t *testing.T) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.OK(t, err)
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			all = append(all, words)
		}
	}
	return all
}

func TestDockerfile(t *testing.T) {
	said := map[string]string{}
	for _, words := range dockerfile(t) {
		said[words[0]] = strings.Join(words[1:], " ")
		if words[0] == "RUN" || words[0] == "ADD" {
			t.Errorf("%v: the build of the image must not run or download anything", words)
		}
	}
	if said["FROM"] != "scratch" {
		t.Errorf("FROM %s, want scratch", said["FROM"])
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(said["USER"]) {
		t.Errorf("USER %s: want numbers, and not root's", said["USER"])
	}
	if said["VOLUME"] != "/data" || said["WORKDIR"] != "/data" {
		t.Errorf("VOLUME %s, WORKDIR %s, want /data", said["VOLUME"], said["WORKDIR"])
	}
}

// buildContext returns a folder with the files that goreleaser passes to the builder.
func buildContext(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	require.OK(t, os.MkdirAll(filepath.Join(folder, platform), 0o755))
	require.OK(t, os.Rename(unpacked(t), filepath.Join(folder, platform, "portcullis")))
	for _, name := range []string{"Dockerfile", "LICENSE", "NOTICE", ".tools/release/image"} {
		copyTo(t, filepath.Join(root, name), filepath.Join(folder, name))
	}
	return folder
}

// copyTo copies a file or a folder.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	require.OK(t, err)
	require.OK(t, os.MkdirAll(filepath.Dir(to), 0o755))
	if info.IsDir() {
		require.OK(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	data, err := os.ReadFile(from)
	require.OK(t, err)
	require.OK(t, os.WriteFile(to, data, info.Mode().Perm()))
}

// imageRoot returns a folder with the result of the Dockerfile's COPY lines.
func imageRoot(t *testing.T) string {
	t.Helper()
	from, folder := buildContext(t), t.TempDir()
	require.OK(t, os.Chmod(folder, 0o755))
	for _, words := range dockerfile(t) {
		if words[0] != "COPY" {
			continue
		}
		words = words[1:]
		if strings.HasPrefix(words[0], "--") {
			words = words[1:]
		}
		to := words[len(words)-1]
		for _, name := range words[:len(words)-1] {
			at := to
			if strings.HasSuffix(to, "/") {
				at += filepath.Base(name)
			}
			copyTo(t, filepath.Join(from, strings.ReplaceAll(name, "$TARGETPLATFORM", platform)), filepath.Join(folder, at))
		}
	}
	return folder
}

// readOnly runs the program of an image's root ($0) as the image's user. Only /data is writable.
const readOnly = `mount --bind "$0" "$0"
mount -o remount,ro,bind "$0"
mount -t tmpfs -o uid=65532,gid=65532,mode=700 tmpfs "$0/data"
exec chroot --userspec=65532:65532 "$0" /usr/bin/portcullis "$@"`

func TestImageRunsWithAReadOnlyRoot(t *testing.T) {
	dist(t)
	if runtime.GOOS != "linux" || exec.CommandContext(t.Context(), "unshare", "--mount", "mount", "--bind", "/", "/").Run() != nil {
		t.Skip("not run: a separate root needs Linux and the right to mount")
	}
	folder, addr := imageRoot(t), local.Addr(t)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Log(strings.TrimPrefix(path, folder))
		}
		return err
	})
	require.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "bash", "-ec", readOnly, folder, "serve", "--dir", "/data", "--addr", addr, "--demo")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	serveUntil(t, cmd, "portcullis is ready")
}

// If a container engine is available, the image matches the Dockerfile.
func TestImageIsBuilt(t *testing.T) {
	dist(t)
	for _, engine := range []string{"docker", "podman"} {
		if exec.CommandContext(t.Context(), engine, "info").Run() != nil {
			continue
		}
		const name = "localhost/portcullis-of-a-test"
		build := exec.CommandContext(t.Context(), engine, "build", "--build-arg", "TARGETPLATFORM="+platform, "--tag", name, buildContext(t))
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build.Args, err, out)
		}
		t.Cleanup(func() {
			_ = exec.CommandContext(context.WithoutCancel(t.Context()), engine, "rmi", name).Run()
		})
		out, err := exec.CommandContext(t.Context(), engine, "inspect", "--format", "{{.Config.User}} {{.Config.Entrypoint}} {{.Config.WorkingDir}} {{.Size}}", name).Output()
		require.OK(t, err)
		if !strings.HasPrefix(string(out), "65532:65532 [/usr/bin/portcullis] /data ") {
			t.Errorf("the image has %s", out)
		}
		t.Logf("%s built it: user, program, folder, bytes: %s", engine, out)
		return
	}
	t.Skip("not run: no container engine answers")
}
