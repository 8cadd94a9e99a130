package bootaws

import (
	"context"
	"io"
	"log/slog"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
)

// requestKey is the attribute that holds the platform's id of the request.
const requestKey = "request_id"

// newLog returns a log of JSON lines in Lambda's format: with "timestamp" and "level", by which
// Lambda filters, and with the id of the request.
func newLog(w io.Writer, level slog.Leveler) *slog.Logger {
	h := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: rename})
	return slog.New(requestHandler{h})
}

// rename gives the members of slog the names of Lambda's format. It does not rename the member
// "time" of an audit event, whose value is text.
func rename(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && a.Value.Kind() != slog.KindTime {
		return a
	}
	return lambdacontext.ReplaceAttr(groups, a)
}

// requestHandler adds the id of the request to a record that does not have it.
type requestHandler struct{ slog.Handler }

func (h requestHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := apigw.RequestID(ctx); id != "" {
		named := false
		r.Attrs(func(a slog.Attr) bool {
			named = a.Key == requestKey
			return !named
		})
		if !named {
			r = r.Clone()
			r.AddAttrs(slog.String(requestKey, id))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h requestHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestHandler{h.Handler.WithAttrs(attrs)}
}

func (h requestHandler) WithGroup(name string) slog.Handler {
	return requestHandler{h.Handler.WithGroup(name)}
}
