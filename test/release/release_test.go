// Package release contains only tests, which check the parts of a release. The tests of a snapshot
// read the folder in PORTCULLIS_DIST, which `make snapshot` creates. The other tests read the
// repository.
package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

const root = "../.."

// dist returns the folder of a snapshot.
func dist(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("PORTCULLIS_DIST")
	if folder == "" {
		t.Skip("PORTCULLIS_DIST names no folder: make snapshot makes one")
	}
	return folder
}

// An artifact is one of the files in goreleaser's list of artifacts.
type artifact struct {
	Name, Path, Type string
	Goos, Goarch     string
	Extra            struct{ ID, Format string }
}

// artifacts returns the artifacts of a type.
func artifacts(t *testing.T, kind string) []artifact {
	t.Helper()
	folder := dist(t)
	text, err := os.ReadFile(filepath.Join(folder, "artifacts.json"))
	require.OK(t, err)
	var found []artifact
	for _, a := range require.JSON[[]artifact](t, text) {
		if a.Type == kind {
			a.Path = filepath.Join(folder, "..", a.Path)
			found = append(found, a)
		}
	}
	if len(found) == 0 {
		t.Fatalf("the snapshot has no %s", kind)
	}
	return found
}

// An archived is one file of an archive.
type archived struct {
	mode os.FileMode
	data []byte
}

// unpack returns the files of an archive, by name.
func unpack(t *testing.T, path string) map[string]archived {
	t.Helper()
	files := map[string]archived{}
	if strings.HasSuffix(path, ".zip") {
		z, err := zip.OpenReader(path)
		require.OK(t, err)
		defer z.Close()
		for _, f := range z.File {
			r, err := f.Open()
			require.OK(t, err)
			data, err := io.ReadAll(r)
			require.OK(t, err)
			files[f.Name] = archived{f.Mode(), data}
		}
		return files
	}
	text, err := os.ReadFile(path)
	require.OK(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(text))
	require.OK(t, err)
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.OK(t, err)
		data, err := io.ReadAll(r)
		require.OK(t, err)
		files[h.Name] = archived{h.FileInfo().Mode(), data}
	}
}

// The largest sizes in bytes. A limit exists because a larger function starts more slowly. The
// limits rose by half a megabyte for the sign-in to servers, whose code is 0.05 MB of the zip and
// 0.4 MB of the program. No other code of that size could be removed without losing a feature. The
// limit of the program rose by 3.4 MB: 2.5 MB for Prometheus, and 0.6 MB for the sign-in of stdio,
// tasks, MCP Apps and the commands about servers. No function links Prometheus.
const (
	maxMCPZip  = 8_500_000  // of portcullis-function-mcp for arm64
	maxProgram = 43_900_000 // of portcullis for linux
)

func TestArchives(t *testing.T) {
	programs := 0
	for _, a := range artifacts(t, "Archive") {
		files := unpack(t, a.Path)
		want := strings.Fields("LICENSE NOTICE README.md completions/portcullis.bash " +
			"completions/_portcullis completions/portcullis.fish server/compose.yaml " +
			"server/portcullis.env server/portcullis.service server/programs.conf " +
			"server/portcullis-backup.service server/portcullis-backup.timer")
		program := "portcullis"
		if programs++; a.Goos == "windows" {
			program += ".exe"
		}
		for _, name := range append(want, program) {
			if len(files[name].data) == 0 {
				t.Errorf("%s has no %s", a.Name, name)
			}
		}
		if len(files) != len(want)+1 {
			t.Errorf("%s has %d files, want exactly %d", a.Name, len(files), len(want)+1)
		}
		if mode := files[program].mode.Perm(); mode != 0o755 {
			t.Errorf("%s: the mode of %s is %v", a.Name, program, mode)
		}
		t.Logf("%s: program of %.1f MB", a.Name, float64(len(files[program].data))/1e6)
		if size := len(files[program].data); a.Goos == "linux" && size > maxProgram {
			t.Errorf("%s has %d bytes, want <= %d: go tool nm -size says what grew", a.Name, size, maxProgram)
		}
	}
	if programs != 6 {
		t.Errorf("%d archives of the program, want 6", programs)
	}
}

func TestChecksums(t *testing.T) {
	folder := dist(t)
	text, err := os.ReadFile(filepath.Join(folder, "checksums.txt"))
	require.OK(t, err)
	sums := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		sum, name, _ := strings.Cut(line, "  ")
		sums[name] = sum
	}
	for _, a := range slices.Concat(artifacts(t, "Archive"), artifacts(t, "SBOM"), awsArchives(t)) {
		data, err := os.ReadFile(a.Path)
		require.OK(t, err)
		got := sha256.Sum256(data)
		if sums[a.Name] != hex.EncodeToString(got[:]) {
			t.Errorf("checksums.txt has %q for %s, but its SHA-256 is %x",
				sums[a.Name], a.Name, got)
		}
		delete(sums, a.Name)
	}
	if len(sums) > 0 {
		t.Errorf("checksums.txt names files that do not exist: %v", sums)
	}
}

// The programs contain no path of the machine that built them.
func TestProgramsNameNoPathOfTheBuildMachine(t *testing.T) {
	top, err := filepath.Abs(root)
	require.OK(t, err)
	home, err := os.UserHomeDir()
	require.OK(t, err)
	places := []string{top, filepath.Join(home, "go"), filepath.Join(home, ".cache"), runtime.GOROOT(), os.TempDir() + "/go-build"} //nolint:staticcheck // where the sources of this toolchain are
	programs := artifacts(t, "Binary")
	for _, a := range awsArchives(t) {
		programs = append(programs, functions(t, a)...)
	}
	for _, a := range programs {
		data, err := os.ReadFile(a.Path)
		require.OK(t, err)
		for _, place := range places {
			if place != "" && bytes.Contains(data, []byte(place+"/")) {
				t.Errorf("%s %s/%s contains %s", a.Extra.ID, a.Goos, a.Goarch, place)
			}
		}
	}
}
