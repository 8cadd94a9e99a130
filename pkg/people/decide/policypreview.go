package decide

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/people/difference"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// PolicyText returns the stored policy.cedar, or "" if there is none.
func (d *Service) PolicyText(ctx context.Context) (string, error) {
	if d.o.Objects == nil {
		return "", Refuse(http.StatusNotImplemented, "this process cannot read policy.cedar")
	}
	o, err := d.o.Objects.Get(ctx, policy.Key, "")
	switch {
	case errors.Is(err, object.ErrNotFound):
		return "", nil
	case err != nil:
		d.o.Log.LogAttrs(ctx, slog.LevelError, "policy not read", slog.Any("error", err))
		return "", Refuse(http.StatusServiceUnavailable,
			"policy.cedar cannot be read; the log names the cause")
	}
	return string(o.Data), nil
}

// PreviewPolicy returns what changes if the text replaces the policy in use. Nothing is written.
func (d *Service) PreviewPolicy(
	ctx context.Context, text string,
) (out difference.Difference, err error) {
	edited, err := policy.Parse([]byte(text))
	if err != nil {
		e := &Error{
			Status: http.StatusUnprocessableEntity,
			Detail: "the policy has faults, so there is no preview; no policy was changed",
		}
		for _, f := range faultsOf(err) {
			e.Parts = append(e.Parts, Cause{"", f.String()})
		}
		return out, e
	}
	st := d.states.Load(ctx)
	if st.Config == nil || st.Catalog == nil || st.Policy == nil {
		return out, Refuse(http.StatusServiceUnavailable, "there is no preview before the first "+
			"sync, or while no policy is in use")
	}
	return difference.Between(
		difference.Files{Config: st.Config, Policy: st.Policy},
		difference.Files{Config: st.Config, Policy: edited}, st.Catalog), nil
}
