// Package store has the common code of its drivers: dir and s3 store objects, bolt and dynamo store
// approvals, agent tokens and the sessions of people.
package store

import (
	"fmt"
	"time"
)

// Options are the settings of a store of approvals. The zero value uses the defaults.
type Options struct {
	Now       func() time.Time // nil: time.Now
	KeepAudit time.Duration    // minimum time for which audit lines are kept; 0: forever
	LockWait  time.Duration    // maximum wait until another process closes the file; 0: two seconds
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

// Wrap adds the failed operation to *err, if it is not nil. Drivers defer it.
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf(format+": %w", append(args, *err)...)
	}
}
