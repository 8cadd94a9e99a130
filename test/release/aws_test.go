package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// awsArchives returns the archives for a deploy with the AWS CLI, one for each processor.
func awsArchives(t *testing.T) (all []artifact) {
	t.Helper()
	folder := dist(t)
	paths, err := filepath.Glob(filepath.Join(folder, "..", ".tools", "release", "aws", "*.zip"))
	require.OK(t, err)
	for _, path := range paths {
		a := artifact{Name: filepath.Base(path), Path: path, Goos: "linux", Goarch: "amd64"}
		if strings.HasSuffix(path, "_arm64.zip") {
			a.Goarch = "arm64"
		}
		a.Extra.ID = "aws"
		all = append(all, a)
	}
	if len(all) != 2 || all[0].Goarch == all[1].Goarch {
		t.Fatalf("archives for AWS: %v, want one for each processor", paths)
	}
	return all
}

// functions unpacks the programs of an archive for AWS.
func functions(t *testing.T, archive artifact) (all []artifact) {
	t.Helper()
	for name, file := range unpack(t, archive.Path) {
		if !strings.HasSuffix(name, ".zip") {
			continue
		}
		zipped := filepath.Join(t.TempDir(), filepath.Base(name))
		require.OK(t, os.WriteFile(zipped, file.data, 0o600))
		files := unpack(t, zipped)
		program := files["bootstrap"]
		if len(files) != 1 || program.mode.Perm() != 0o755 {
			t.Fatalf(
				"%s: %s has %d files, and bootstrap the mode %v",
				archive.Name,
				name,
				len(files),
				program.mode,
			)
		}
		if name == "functions/mcp.zip" && archive.Goarch == "arm64" && len(file.data) > maxMCPZip {
			t.Errorf(
				"%s has %d bytes, want <= %d: go tool nm -size says what grew",
				name,
				len(file.data),
				maxMCPZip,
			)
		}
		a := artifact{
			Name:   name,
			Path:   filepath.Join(t.TempDir(), "bootstrap"),
			Goos:   "linux",
			Goarch: archive.Goarch,
		}
		require.OK(t, os.WriteFile(a.Path, program.data, 0o600))
		t.Logf(
			"%s: %s, %.1f MB, %.1f MB unpacked",
			archive.Name,
			name,
			float64(len(file.data))/1e6,
			float64(len(program.data))/1e6,
		)
		all = append(all, a)
	}
	if len(all) != 4 {
		t.Fatalf("%s has %d functions, want 4", archive.Name, len(all))
	}
	return all
}
