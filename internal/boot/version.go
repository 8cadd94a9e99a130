package boot

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// The linker sets these, as in -X
// github.com/portcullis-mcp/portcullis/internal/boot.Version=v1.2.0.
var (
	Version = "dev" // version of the program
	Commit  string  // commit of the source; if empty, the value of the Go command is used
	// Date is the time of the build, such as 2026-11-21T21:00:00Z, or for reproducible builds the
	// time of the commit. If it is empty, the value of the Go command is used.
	Date string
)

// A Build identifies this program.
type Build struct {
	Version string `json:"version"` // "dev": neither the linker nor the Go command set a version
	// "": not known, for example after go install with a version
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the source had uncommitted changes
	Date     string `json:"date,omitempty"`     // "": not known
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild returns the known facts about this program. If the linker set no version, it uses the
// version from the Go command: the module's version, such as v1.2.0, or a version with the commit.
func ThisBuild() Build {
	b := Build{Version: Version, Commit: Commit, Date: Date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	noted := map[string]string{}
	for _, s := range info.Settings {
		noted[s.Key] = s.Value
	}
	if v := info.Main.Version; b.Version == "dev" && v != "" && v != "(devel)" {
		b.Version = v
	}
	if b.Modified = Commit == "" && noted["vcs.modified"] == "true"; b.Modified {
		b.Version = strings.TrimSuffix(b.Version, "+dirty") // the field Modified says this
	}
	b.Commit, b.Date = cmp.Or(b.Commit, noted["vcs.revision"]), cmp.Or(b.Date, noted["vcs.time"])
	return b
}

// LongVersion returns the version and the Go version for a person.
func LongVersion() string {
	b := ThisBuild()
	if b.Modified {
		b.Version += "+dirty"
	}
	return b.Version + " " + b.Go
}
