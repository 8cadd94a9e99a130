// Package store holds what its drivers have in common: dir and s3 keep objects, bolt and
// dynamo keep approvals and agent tokens.
package store

import "fmt"

// Wrap says in *err, if it is not nil, what was being done. Drivers defer it.
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf(format+": %w", append(args, *err)...)
	}
}
