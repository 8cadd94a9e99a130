package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// otherPrograms names the programs of functions that have no program of their own.
var otherPrograms = map[string]string{"work": "sync", "assemble": "sync"}

var (
	// function matches a function of template.yaml up to the line before its first property.
	function = regexp.MustCompile(
		`(?m)^  (\w+)Function:\n    Type: AWS::Serverless::Function\n(?:    .*\n)*?    Properties:\n`,
	)
	// built matches the lines that only `sam build` reads.
	built = regexp.MustCompile(
		`(?m)^    CodeUri: \.\n|^    Metadata: \{BuildMethod: makefile\}\n|^      BuildMethod: makefile\n`,
	)
	// included matches the path of a template that another one includes.
	included = regexp.MustCompile(`\b(?:TemplateURL|Location): ([\w./-]+\.yaml)`)
)

// pack returns the archive for a processor. The source has the templates, and programs has a file
// for each program.
func pack(source, programs fs.FS, arch string) ([]byte, error) {
	files := map[string][]byte{}
	// The template names two of the texts. The program is for people, after the deploy.
	for _, name := range []string{"LICENSE", "NOTICE", "README.md", "infra/after_deploy.py"} {
		text, err := fs.ReadFile(source, name)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	if err := addTemplate(files, source, "template.yaml"); err != nil {
		return nil, err
	}
	template, names, err := rewrite(string(files["template.yaml"]), arch)
	if err != nil {
		return nil, err
	}
	files["template.yaml"] = []byte(template)
	for _, name := range names {
		program, err := fs.ReadFile(programs, name)
		if err != nil {
			return nil, err
		}
		files["functions/"+name+".zip"], err = zipped(
			map[string][]byte{"bootstrap": program},
			0o755,
		)
		if err != nil {
			return nil, err
		}
	}
	return zipped(files, 0o644)
}

// addTemplate adds a template, and all templates that it includes.
func addTemplate(files map[string][]byte, source fs.FS, name string) error {
	if files[name] != nil {
		return nil
	}
	text, err := fs.ReadFile(source, name)
	if err != nil {
		return err
	}
	files[name] = text
	for _, m := range included.FindAllSubmatch(text, -1) {
		// Paths in a template are relative to its folder.
		if err := addTemplate(files, source, path.Join(path.Dir(name), string(m[1]))); err != nil {
			return fmt.Errorf("%s includes a file that cannot be read: %w", name, err)
		}
	}
	return nil
}

// rewrite returns the template with the path of a zip in each function, and the names of the
// programs in these zips. The parameter Architecture accepts only the processor of the zips, so
// CloudFormation refuses an archive for another processor than the stack's.
func rewrite(template, arch string) (string, []string, error) {
	const either = "[arm64, x86_64]"
	if arch != "arm64" && arch != "x86_64" {
		return "", nil, fmt.Errorf("the processor %q is neither arm64 nor x86_64", arch)
	}
	if strings.Count(template, either) != 1 || strings.Count(template, "Default: arm64") != 1 {
		return "", nil, fmt.Errorf(
			"template.yaml has no parameter, or several, with the values %s and the default arm64",
			either,
		)
	}
	template = strings.NewReplacer(either, "["+arch+"]", "Default: arm64", "Default: "+arch).
		Replace(template)
	names := map[string]bool{}
	var uris int
	template = function.ReplaceAllStringFunc(template, func(head string) string {
		name := strings.ToLower(function.FindStringSubmatch(head)[1])
		if other, ok := otherPrograms[name]; ok {
			name = other
		}
		names[name] = true
		uris++
		return head + "      CodeUri: functions/" + name + ".zip\n"
	})
	if all := strings.Count(template, "Type: AWS::Serverless::Function"); uris == 0 || uris != all {
		return "", nil, fmt.Errorf(
			"template.yaml has %d functions, but only %d in the expected form",
			all,
			uris,
		)
	}
	template = built.ReplaceAllString(template, "")
	return template, slices.Sorted(maps.Keys(names)), nil
}

// zipped returns a zip of files, in the order of their names and without the time.
func zipped(files map[string][]byte, mode fs.FileMode) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &zip.FileHeader{
			Name:     name,
			Method:   zip.Deflate,
			Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
		}
		header.SetMode(mode)
		file, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
