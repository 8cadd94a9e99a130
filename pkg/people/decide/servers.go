package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An Outcome is the result of the last attempt to load a server.
type Outcome struct {
	Status       string             `json:"status" enum:"available,transient,permanent,denied,unknown" doc:"unknown: the gateway has not tried yet"`
	Message      string             `json:"message,omitempty" doc:"what happened, and who must do what next. Agents get this text too, except if it names an issuer or says how long a program has been starting"`
	Reason       string             `json:"reason,omitempty" doc:"stable code: timeout, refused, auth_required, …"`
	Error        string             `json:"error,omitempty" doc:"the cause, without secrets"`
	HTTPStatus   int                `json:"http_status,omitempty"`
	Connected    bool               `json:"connected,omitempty" doc:"the gateway has a sign-in at the server, even an ended one"`
	Challenge    *outcome.Challenge `json:"challenge,omitempty" doc:"what the server requires, if it denied access"`
	Attempts     int                `json:"attempts"`
	RetryAfterMS int64              `json:"retry_after_ms,omitempty"`
	DurationMS   int64              `json:"duration_ms"`
	CheckedAt    time.Time          `json:"checked_at,omitzero"`
	LoadedAt     time.Time          `json:"loaded_at,omitzero" doc:"time of the last successful load; absent if it is not known"`
	Unread       []outcome.Unread   `json:"unread,omitempty" doc:"lists of an available server that could not be read; the gateway keeps their last content"`
	Refused      []outcome.Refusal  `json:"refused,omitempty" doc:"what the server lists and the gateway refuses"`
}

// A Server is one configured server.
type Server struct {
	Name      string       `json:"name"`
	Enabled   bool         `json:"enabled"`
	Required  bool         `json:"required"`
	Approval  string       `json:"approval" enum:"manual,on_change,off"`
	Outcome   Outcome      `json:"outcome"`
	Tools     lock.Counts  `json:"tools"`
	Prompts   *lock.Counts `json:"prompts,omitempty" doc:"absent if the server has none"`
	Resources *lock.Counts `json:"resources,omitempty" doc:"resources and resource templates; absent if the server has none"`

	LastMessage string `json:"last_message,omitempty" doc:"the server's last message, for operators only"`
}

// A Part is one part of the state, and how fresh it is.
type Part struct {
	Version string        `json:"version,omitempty" doc:"version in use; absent: none"`
	Stored  string        `json:"stored_version,omitempty" doc:"version of the stored file, if the gateway refused it"`
	ReadAt  time.Time     `json:"read_at,omitzero" doc:"when the gateway last confirmed that this version is stored"`
	Stale   bool          `json:"stale" doc:"another version is stored, or may be stored"`
	Error   string        `json:"error,omitempty"`
	Faults  config.Faults `json:"faults,omitempty" doc:"what is wrong with the stored file"`
}

// A Freshness says how fresh each part of the state is.
type Freshness struct {
	Config    Part      `json:"config"`
	Policy    Part      `json:"policy"`
	Catalog   Part      `json:"catalog"`
	Approvals Part      `json:"approvals"`
	SyncedAt  time.Time `json:"synced_at,omitzero" doc:"when the catalog was last confirmed"`
	Warnings  []string  `json:"warnings,omitempty" doc:"settings that are allowed but look wrong"`
}

// Servers returns a page of the servers, with the number of tools, prompts and resources in each
// status.
func (d *Service) Servers(ctx context.Context, p Paging) ([]Server, Next, error) {
	v := d.View(ctx)
	name := func(s state.Server) string { return s.Config.Name }
	page, next, err := Cut(p, "servers", d.configured(ctx, v), name)
	servers, refused := make([]Server, len(page)), d.refusals(ctx)
	for n, s := range page {
		servers[n] = serverOf(v, s)
		addRefusal(&servers[n], s.Config, refused)
		servers[n].LastMessage = d.lastMessage(ctx, s.Config.Name)
	}
	return servers, next, err
}

// configured returns the servers of the config. Before the first sync the view has none.
func (d *Service) configured(ctx context.Context, v *state.View) []state.Server {
	all := v.Servers()
	if cfg := d.states.Load(ctx).Config; all == nil && cfg != nil {
		for _, c := range cfg.Servers {
			all = append(all, state.Server{Config: c})
		}
	}
	return all
}

func serverOf(v *state.View, s state.Server) Server {
	c := s.Config
	out := Server{Name: c.Name, Enabled: c.Enabled, Required: c.Required, Approval: c.Approval, Outcome: OutcomeOf(c.Name, s.Outcome)}
	for i := s.First; i < s.First+s.Tools; i++ {
		out.Tools.Add(v.Status(i))
	}
	for i := s.FirstItem; i < s.FirstItem+s.Items; i++ {
		counts := &out.Resources
		if v.ID(i).Kind == tool.Prompt {
			counts = &out.Prompts
		}
		if *counts == nil {
			*counts = new(lock.Counts)
		}
		(*counts).Add(v.Status(i))
	}
	return out
}

// Freshness returns how fresh each part of the state is.
func (d *Service) Freshness(ctx context.Context) Freshness { return freshnessOf(d.states.Load(ctx)) }

// OutcomeOf returns what people see of the last attempt to load the named server.
func OutcomeOf(server string, o outcome.Outcome) Outcome {
	out := Outcome{
		Status: string(o.Status), Message: o.OperatorMessage(server), Reason: o.Reason, Error: o.Error,
		HTTPStatus: o.HTTPStatus, Connected: o.Connected, Challenge: o.Challenge, Attempts: o.Attempts,
		RetryAfterMS: o.RetryAfter.Milliseconds(), DurationMS: o.Duration.Milliseconds(),
		CheckedAt: o.CheckedAt, LoadedAt: o.LoadedAt, Unread: o.Unread, Refused: o.Refused,
	}
	if o.Status == "" {
		out.Status = "unknown"
	}
	if !o.Started.IsZero() {
		out.Message = fmt.Sprintf("MCP server '%s' has been starting for %d s: its program has not answered yet; the gateway will try again.",
			server, int(time.Since(o.Started).Seconds()))
	}
	return out
}

func freshnessOf(s *state.State) Freshness {
	out := Freshness{
		Config: partOf(s.Health.Config), Policy: partOf(s.Health.Policy),
		Catalog: partOf(s.Health.Catalog), Approvals: partOf(s.Health.Approvals),
		Warnings: s.Health.Warnings,
	}
	if s.Catalog != nil {
		out.SyncedAt = s.Catalog.Current().SyncedAt
	}
	return out
}

func partOf(p state.Part) Part {
	out := Part{Version: p.Version, Stored: p.Stored, ReadAt: p.ReadAt, Stale: p.Stale, Faults: faultsOf(p.Err)}
	if p.Err != nil {
		out.Error = "the file cannot be read; the log says more"
		if out.Faults != nil {
			out.Error = "the stored file is not in use"
		}
	}
	return out
}

// faultsOf returns the faults of a file in err. Other errors go only to the log, because they may
// name hosts and accounts.
func faultsOf(err error) config.Faults {
	faults, _ := errors.AsType[config.Faults](err)
	return faults
}
