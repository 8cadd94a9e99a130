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
	"flag"
	"fmt"
	"os"
)

func main() {
	arch := flag.String("arch", "arm64", "processor of the programs: arm64 or x86_64")
	programs := flag.String("programs", "", "folder with the programs of the functions")
	out := flag.String("o", "", "archive to write")
	flag.Parse()
	archive, err := pack(os.DirFS("."), os.DirFS(*programs), *arch)
	if err == nil {
		err = os.WriteFile(*out, archive, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "awsarchive: no archive was written:", err)
		os.Exit(1)
	}
}
