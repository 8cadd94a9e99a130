package release

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

const module = "github.com/portcullis-mcp/portcullis"

// A bill is the part of an SBOM in SPDX that the tests read.
type bill struct {
	SPDXVersion string
	Packages    []struct {
		Name, VersionInfo, LicenseConcluded, LicenseDeclared string
	}
}

// direct returns the direct requirements of go.mod.
func direct(t *testing.T) map[string]bool {
	t.Helper()
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.OK(t, err)
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllSubmatch(gomod, -1) {
		all[string(m[1])] = true
	}
	return all
}

// Each SBOM names the modules that are linked into the program of its archive, with their versions.
// It also has the licenses of the direct requirements.
func TestBills(t *testing.T) {
	linked := map[string][]*debug.Module{} // by the archive of the program
	add := func(archive, program artifact) {
		info, err := buildinfo.ReadFile(program.Path)
		require.OK(t, err)
		key := archive.Extra.ID + " " + archive.Goos + " " + archive.Goarch
		linked[key] = append(linked[key], info.Deps...)
	}
	for _, a := range artifacts(t, "Binary") {
		add(a, a)
	}
	for _, a := range awsArchives(t) {
		for _, program := range functions(t, a) {
			add(a, program)
		}
	}
	chosen := direct(t)
	for _, a := range append(artifacts(t, "Archive"), awsArchives(t)...) {
		text, err := os.ReadFile(filepath.Join(dist(t), a.Name+".spdx.json"))
		require.OK(t, err)
		versions, licensed := map[string]string{}, map[string]bool{}
		b := require.JSON[bill](t, text)
		for _, p := range b.Packages {
			if versions[p.Name] == "" || p.Name != module {
				versions[p.Name] = p.VersionInfo
			}
			for _, l := range []string{p.LicenseConcluded, p.LicenseDeclared} {
				licensed[p.Name] = licensed[p.Name] || l != "" && l != "NOASSERTION" && l != "NONE"
			}
		}
		if !strings.HasPrefix(versions[module], "v") || !licensed[module] {
			t.Errorf("%s: the bill has the main module at %q, and its licence: %v", a.Name, versions[module], licensed[module])
		}
		modules, ours := linked[a.Extra.ID+" "+a.Goos+" "+a.Goarch], 0
		for _, m := range modules {
			if versions[m.Path] != m.Version {
				t.Errorf("%s: the SBOM has %s at %q, but the program links %q", a.Name, m.Path, versions[m.Path], m.Version)
			}
			if !chosen[m.Path] {
				continue
			}
			if ours++; !licensed[m.Path] {
				t.Errorf("%s: the SBOM has no license of %s", a.Name, m.Path)
			}
		}
		if strings.Contains(string(text), filepath.Dir(a.Path)) ||
			strings.Contains(string(text), os.TempDir()+"/") {
			t.Errorf("%s: the SBOM names the folder of its build", a.Name)
		}
		t.Logf("%s: %d packages of %d linked modules, %d of them required by go.mod itself", a.Name, len(b.Packages), len(modules), ours)
	}
}
