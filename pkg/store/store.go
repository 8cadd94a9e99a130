// Package store has the common code of its drivers: dir and s3 store objects, bolt and dynamo store
// approvals, agent tokens and the sessions of people.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
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

// A FailureCount counts the operations that failed because a store does not work. The zero value
// counts from 0.
type FailureCount struct{ n atomic.Int64 }

// answers are errors of a store that works: they say what it holds, or that the caller gave up.
var answers = []error{
	context.Canceled,
	object.ErrNotFound, object.ErrNotModified, object.ErrConflict, object.ErrKey,
	document.ErrNotFound, document.ErrConflict,
	approval.ErrNotFound, approval.ErrConflict, approval.ErrUnchanged,
}

// Note counts err if it is a failure of the store.
func (f *FailureCount) Note(err error) {
	if err != nil &&
		!slices.ContainsFunc(answers, func(a error) bool { return errors.Is(err, a) }) {
		f.n.Add(1)
	}
}

// Failures returns how many operations failed.
func (f *FailureCount) Failures() int64 { return f.n.Load() }
