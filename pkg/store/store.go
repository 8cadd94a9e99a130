// Package store holds what its drivers have in common: dir and s3 keep objects, bolt and
// dynamo keep approvals, agent tokens and the sessions of people.
package store

import (
	"fmt"
	"time"
)

// Options are the knobs of a store of approvals. The zero value works.
type Options struct {
	Now       func() time.Time // nil: time.Now
	KeepAudit time.Duration    // how long audit lines are kept, at least; 0: for ever
	LockWait  time.Duration    // how long a file waits for another process to close it; 0: two seconds
}

// OrDefault returns o with its defaults filled in; o may be nil.
func (o *Options) OrDefault() (out Options) {
	if o != nil {
		out = *o
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	return out
}

// Wrap says in *err, if it is not nil, what was being done. Drivers defer it.
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf(format+": %w", append(args, *err)...)
	}
}
