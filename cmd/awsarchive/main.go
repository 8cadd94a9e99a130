// Command awsarchive packs the archive from which the AWS CLI deploys the gateway without Go, make
// or SAM.
//
// The archive contains the templates and the zips of the functions' programs for one processor.
// `aws cloudformation package` uploads the files that a template names by path, so this program
// gives each function the path of its zip. A path cannot depend on a parameter: hence an archive
// for each processor. The same input gives the same bytes, because Lambda and CloudFormation see
// another zip as another version.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
)

func main() {
	arch := flag.String("arch", "arm64", "processor of the programs: arm64 or x86_64")
	programs := flag.String("programs", "", "folder with the programs of the functions")
	out := flag.String("o", "", "archive to write")
	flag.Parse()
	archive, err := pack(os.DirFS("."), os.DirFS(*programs), *arch)
	if err == nil {
		err = write(*out, archive)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "awsarchive: no archive was written:", err)
		os.Exit(1)
	}
}

// write writes an archive. It fails if the file exists with another content, because the name
// contains the version, and two archives of one version must be equal.
func write(name string, archive []byte) error {
	switch old, err := os.ReadFile(name); {
	case errors.Is(err, fs.ErrNotExist):
		return os.WriteFile(name, archive, 0o600)
	case err != nil:
		return err
	case !bytes.Equal(old, archive):
		return fmt.Errorf(
			"%s exists and has other content. Choose another VERSION, or remove the file", name,
		)
	}
	return nil
}
