package main

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/require"
)

const small = `Parameters:
  Architecture: {Type: String, Default: arm64, AllowedValues: [arm64, x86_64]}
Globals:
  Function:
    CodeUri: .
    Handler: bootstrap
Resources:
  Rights:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: infra/a.yaml
  McpFunction:
    Type: AWS::Serverless::Function
    Metadata:
      BuildMethod: makefile
      cfn-lint: {}
    Properties:
      Role: {Fn::Transform: {Name: AWS::Include, Parameters: {Location: infra/rights/role.yaml}}}
  WorkFunction:
    Type: AWS::Serverless::Function
    Condition: FansOut
    Metadata: {BuildMethod: makefile}
    Properties:
      Timeout: 1
`

const packed = `Parameters:
  Architecture: {Type: String, Default: x86_64, AllowedValues: [x86_64]}
Globals:
  Function:
    Handler: bootstrap
Resources:
  Rights:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: infra/a.yaml
  McpFunction:
    Type: AWS::Serverless::Function
    Metadata:
      cfn-lint: {}
    Properties:
      CodeUri: functions/mcp.zip
      Role: {Fn::Transform: {Name: AWS::Include, Parameters: {Location: infra/rights/role.yaml}}}
  WorkFunction:
    Type: AWS::Serverless::Function
    Condition: FansOut
    Properties:
      CodeUri: functions/sync.zip
      Timeout: 1
`

var alsoPacked = strings.Fields(
	"LICENSE NOTICE README.md infra/after_deploy.py infra/b.yaml infra/rights/role.yaml",
)

var allPrograms = programs("mcp", "sync", "admin", "hook")

// programs returns a folder with programs of these names.
func programs(names ...string) fs.FS {
	all := fstest.MapFS{}
	for _, name := range names {
		all[name] = &fstest.MapFile{Data: []byte("the program " + name)}
	}
	return all
}

// repository returns a repository with the template.
func repository(template string) fstest.MapFS {
	all := fstest.MapFS{"template.yaml": {Data: []byte(template)}}
	for _, name := range append(alsoPacked, "infra/unused.yaml") {
		all[name] = &fstest.MapFile{Data: []byte("the file " + name)}
	}
	all["infra/a.yaml"] = &fstest.MapFile{Data: []byte("      TemplateURL: b.yaml\n")}
	return all
}

// unzip returns the files of a zip by name. It fails the test if one has another mode.
func unzip(t *testing.T, data []byte, mode fs.FileMode) map[string]string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.OK(t, err)
	files := map[string]string{}
	for _, f := range archive.File {
		if f.Mode() != mode {
			t.Errorf("%s has the mode %v, want %v", f.Name, f.Mode(), mode)
		}
		r, err := f.Open()
		require.OK(t, err)
		text, err := io.ReadAll(r)
		require.OK(t, err)
		files[f.Name] = string(text)
	}
	return files
}

func TestPack(t *testing.T) {
	archive, err := pack(repository(small), allPrograms, "x86_64")
	require.OK(t, err)
	files := unzip(t, archive, 0o644)
	for _, name := range []string{"mcp", "sync"} {
		zipped := files["functions/"+name+".zip"]
		want := map[string]string{"bootstrap": "the program " + name}
		if diff := cmp.Diff(want, unzip(t, []byte(zipped), 0o755)); diff != "" {
			t.Errorf("zip of %s (-want +got):\n%s", name, diff)
		}
		delete(files, "functions/"+name+".zip")
	}
	want := map[string]string{
		"template.yaml": packed,
		"infra/a.yaml":  "      TemplateURL: b.yaml\n",
	}
	for _, name := range alsoPacked {
		want[name] = "the file " + name
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

// The repository's own template is packed, each time into the same bytes, with a zip for each
// function.
func TestPackRepository(t *testing.T) {
	source := os.DirFS("../..")
	archive, err := pack(source, allPrograms, "arm64")
	require.OK(t, err)
	again, err := pack(source, allPrograms, "arm64")
	require.OK(t, err)
	if !bytes.Equal(archive, again) {
		t.Error("two runs give different bytes")
	}
	files := unzip(t, archive, 0o644)
	for _, name := range strings.Fields("mcp sync admin hook") {
		if files["functions/"+name+".zip"] == "" {
			t.Errorf("the archive has no program %s", name)
		}
	}
	if text := files["template.yaml"]; strings.Contains(text, "makefile") ||
		strings.Contains(text, "CodeUri: .\n") ||
		strings.Contains(text, "x86_64") {
		t.Errorf("the template still needs a build, or accepts another processor:\n%s", text)
	}
}

func TestPackRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		old, new string // what differs in the template
		programs fs.FS
		arch     string
		want     string
	}{
		"processor":      {"", "", allPrograms, "amd64", `the processor "amd64" is neither`},
		"no processor":   {"", "", allPrograms, "", `the processor ""`},
		"parameter":      {"[arm64, x86_64]", "[arm64]", allPrograms, "arm64", "no parameter, or"},
		"no function":    {"AWS::Serverless", "AWS::Lambda", allPrograms, "arm64", "0 functions"},
		"other form":     {"WorkFunction:", "Work:", allPrograms, "arm64", "2 functions, but"},
		"no program":     {"", "", programs("mcp"), "arm64", "open sync:"},
		"other function": {"Work", "Other", allPrograms, "arm64", "open other:"},
		"no template":    {"infra/a.yaml", "infra/c.yaml", allPrograms, "arm64", "open infra/c"},
		"path outside":   {"infra/a.yaml", "../a.yaml", allPrograms, "arm64", "open ../a.yaml:"},
	} {
		t.Run(name, func(t *testing.T) {
			source := repository(strings.ReplaceAll(small, test.old, test.new))
			archive, err := pack(source, test.programs, test.arch)
			if err == nil || !strings.Contains(err.Error(), test.want) || archive != nil {
				t.Errorf("pack returns %d bytes and %v, want %q", len(archive), err, test.want)
			}
		})
	}
}

// A version has one archive: a second archive with other content does not replace the first one.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "portcullis-aws_1.0.0_arm64.zip")
	require.OK(t, write(path, []byte("first")))
	require.OK(t, write(path, []byte("first")))
	err := write(path, []byte("second"))
	if err == nil || !strings.Contains(err.Error(), "Choose another VERSION") {
		t.Errorf("the second archive of a version: %v", err)
	}
	if kept, err := os.ReadFile(path); string(kept) != "first" {
		t.Errorf("the file contains %q (%v)", kept, err)
	}
}
