package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// registerAudit adds the operations that read the audit.
func (a *api) registerAudit(h huma.API) {
	list := get(
		"audit",
		"/admin/audit",
		"List audit lines, newest first: calls of agents and actions of people",
	)
	list.Errors = append(list.Errors, http.StatusUnprocessableEntity)
	serve(a, h, list, a.audit)
	for _, e := range exports {
		op := get(
			"audit-"+e.name,
			"/admin/audit."+e.name,
			"Export all audit lines as a file: "+e.what,
		)
		op.Responses = map[string]*huma.Response{
			"200": {Description: e.what, Content: map[string]*huma.MediaType{e.mediaType: {}}},
		}
		op.Errors = append(op.Errors, http.StatusUnprocessableEntity)
		huma.Register(
			h,
			op,
			func(ctx context.Context, in *decide.AuditQuery) (*huma.StreamResponse, error) {
				f, err := in.Filter(a.service.Now())
				if err != nil {
					return nil, a.fail(ctx, op.OperationID, err)
				}
				return &huma.StreamResponse{
					Body: func(hc huma.Context) { a.export(hc, op.OperationID, e, f) },
				}, nil
			},
		)
	}
}

// registerChain adds the operations about the files of whole days.
func (a *api) registerChain(h huma.API) {
	check := get(
		"audit-check",
		"/admin/audit/check",
		"Check the chain of hashes in the audit files of whole days, for at most 30 s",
	)
	check.Errors = append(
		check.Errors,
		http.StatusNotFound,
		http.StatusUnprocessableEntity,
		http.StatusNotImplemented,
	)
	serve(a, h, check, func(ctx context.Context, in *daysInput) (out audit.Chain, err error) {
		f, err := in.filter(a.service.Now())
		if err != nil {
			return out, err
		}
		return a.service.CheckAudit(ctx, f.Since, f.Until)
	})
	op := get(
		"audit-evidence",
		"/admin/audit/evidence.zip",
		"Download the audit files of whole days, with a manifest and a script that checks them",
	)
	op.Responses = map[string]*huma.Response{
		"200": {
			Description: "a zip archive",
			Content:     map[string]*huma.MediaType{"application/zip": {}},
		},
	}
	op.Errors = check.Errors
	huma.Register(h, op, func(ctx context.Context, in *daysInput) (*huma.StreamResponse, error) {
		f, err := in.filter(a.service.Now())
		var name string
		var write func(io.Writer) error
		if err == nil {
			name, write, err = a.service.Evidence(ctx, f.Since, f.Until)
		}
		if err != nil {
			return nil, a.fail(ctx, op.OperationID, err)
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			hc.SetHeader("Content-Type", "application/zip")
			hc.SetHeader("Content-Disposition", fmt.Sprintf(`attachment; filename="%s"`, name))
			if err := write(hc.BodyWriter()); err != nil {
				_ = a.service.Explain(ctx, op.OperationID, err) // Explain logs the error
				panic(http.ErrAbortHandler)                     // the caller sees that the archive is not whole
			}
		}}, nil
	})
}

// daysInput names days in UTC.
type daysInput struct {
	Since string `query:"since" maxLength:"64" doc:"first day, in the forms of the audit's since; the whole day is read. Absent: the oldest day"`
	Until string `query:"until" maxLength:"64" doc:"end of the last day, in the forms of since; a day that begins at this moment is not read. Absent: today"`
}

func (in daysInput) filter(now time.Time) (audit.Filter, error) {
	return decide.AuditQuery{Since: in.Since, Until: in.Until}.Filter(now)
}

type auditInput struct {
	decide.AuditQuery
	decide.Paging
}

func (a *api) audit(ctx context.Context, in *auditInput) (out decide.AuditPage, err error) {
	f, err := in.Filter(a.service.Now())
	if err != nil {
		return out, err
	}
	return a.service.Audit(ctx, f, in.Paging)
}

// An exporter is a file format for lines.
type exporter struct {
	name, mediaType, what string
	begin                 func(io.Writer) (audit.Writer, error)
}

var exports = []exporter{
	{
		"csv",
		"text/csv; charset=utf-8",
		"a table of comma-separated values, made safe for spreadsheets",
		func(w io.Writer) (audit.Writer, error) { return audit.NewCSV(w) },
	},
	{"jsonl", "application/jsonl; charset=utf-8", "one JSON object on each line, in the form of " +
		"the schema", func(w io.Writer) (audit.Writer, error) { return audit.JSONL{W: w}, nil }},
}

// maxBuffered limits the bytes of a file if a proxy buffers answers. An answer of a function may
// have 6 MB, including its envelope.
const maxBuffered = 4 << 20

// errFull means that a file has the maximum length.
var errFull = errors.New("the file is as long as an answer may be")

// export writes a file. It reads the first line before it sends anything, so a failing store causes
// an error and not an empty file. If the file ends early after that, its last line says why.
func (a *api) export(hc huma.Context, operation string, e exporter, f audit.Filter) {
	ctx := hc.Context()
	n, last := 0, time.Time{}
	counted := &counter{w: hc.BodyWriter()}
	var out audit.Writer
	begin := func() (err error) {
		hc.SetHeader("Content-Type", e.mediaType)
		hc.SetHeader(
			"Content-Disposition",
			fmt.Sprintf(
				`attachment; filename="portcullis-audit-%s.%s"`,
				a.service.Now().UTC().Format("20060102T150405Z"),
				e.name,
			),
		)
		out, err = e.begin(counted)
		return err
	}
	err := a.service.EachLine(ctx, f, func(l audit.Line) (err error) {
		if out == nil {
			err = begin()
		}
		switch {
		case err != nil:
			return err
		case a.service.HoldsAnswers() && counted.n > maxBuffered:
			return errFull
		}
		n, last = n+1, l.Time
		return out.Write(l)
	})
	if err == nil && out == nil {
		err = begin()
	}
	if err == nil {
		return
	}
	if out == nil {
		p := a.fail(ctx, operation, err)
		hc.SetHeader("Content-Type", "application/problem+json")
		hc.SetStatus(p.Status)
		data, _ := rawjson.Encode(p) // texts and a number cannot fail
		_, _ = hc.BodyWriter().Write(data)
		return
	}
	note := "the rest of the audit cannot be read; the log says why"
	if errors.Is(err, errFull) {
		note = errFull.Error()
	} else {
		_ = a.service.Explain(ctx, operation, err) // Explain logs the error
	}
	note = fmt.Sprintf(
		"lines are missing after these %d: %s. The rest begins with until=%s",
		n,
		note,
		last.Add(1).UTC().Format(time.RFC3339Nano),
	)
	_ = out.Write(audit.Line{ // this fails only if the caller has gone
		V: audit.Version, Time: a.service.Now().UTC(), Kind: audit.KindIncomplete, Note: note,
	})
}

// A counter counts the bytes that are written.
type counter struct {
	w io.Writer
	n int
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += n
	return n, err
}
