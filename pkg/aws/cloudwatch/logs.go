// Package cloudwatch says how agents use the tools of a gateway on AWS.
//
// The names of tools and agents are in the log of the function that agents call, and a search of the
// log finds them when a person starts one. How often and how fast calls are is on the dashboard of
// the stack, which CloudWatch draws from the metrics on the same lines.
package cloudwatch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

const (
	keepAnswer = 15 * time.Minute // how long an answer is good, and is not asked for again
	searchTime = 5 * time.Minute  // how long a search of the log may take
	maxRange   = 7 * 24 * time.Hour
	maxRows    = 10_000 // that CloudWatch Logs Insights answers with

	// What a search costs, as of November 2026. Other regions charge more.
	pricePerGB  = 0.005
	priceRegion = "us-east-1"
)

// search asks for the lines of calls by agent and tool. Names of more than one line count alike.
const search = `filter audit = 1 and kind = "call"
| stats count(*) as n by agent, tool, decision, outcome
| sort n desc
| limit 10000`

// Options are the knobs of a Source.
type Options struct {
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: none
	Stack string           // of the gateway, for a person
}

// A Source reads tools and agents from the log of the mcp function, when a person starts a search.
// It is safe for concurrent use.
type Source struct {
	logs          *awsjson.Client
	group, region string
	now           func() time.Time
	log           *slog.Logger
	says          string // where the rest is

	turn  sync.Mutex // held while CloudWatch Logs is asked
	asked map[string]usage.Answer
}

var (
	_ usage.Source = (*Source)(nil)
	_ usage.Asker  = (*Source)(nil)
)

// New returns a source that searches the named log group. It makes no call.
func New(c aws.Config, group string, o Options) *Source {
	s := &Source{
		logs: awsjson.New(c, "logs"), group: group, region: c.Region, now: o.Now,
		log:   cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		asked: map[string]usage.Answer{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.says = fmt.Sprintf("Calls, refusals, failures and times are not counted here: see the CloudWatch"+
		" dashboard %s-%s. This page finds tools and agents in the log.", o.Stack, c.Region)
	return s
}

// Usage implements [usage.Source].
func (s *Source) Usage(_ context.Context, r usage.Range) (usage.Report, error) {
	out := usage.Report{Range: r, Says: []string{s.says}}
	out.Total.Start, _ = r.Bounds(s.now())
	return out, nil
}

// The name of a question holds all that is needed to read its answer, for the next request may come
// to another instance of the function.
var questionName = regexp.MustCompile(`^(1h|24h|7d)\.([0-9]{1,12})\.([0-9a-zA-Z-]{1,64})$`)

// open reads the name of a question; false: it is none, or an old one.
func (s *Source) open(query string) (a usage.Answer, id string, ok bool) {
	m := questionName.FindStringSubmatch(query)
	if m == nil {
		return a, "", false
	}
	seconds, err := strconv.ParseInt(m[2], 10, 64)
	a = usage.Answer{Range: m[1], AskedAt: time.Unix(seconds, 0).UTC(), Running: true}
	return a, m[3], err == nil && s.now().Sub(a.AskedAt).Abs() < keepAnswer
}

// Ask implements [usage.Asker]. One search runs at a time in each instance of the function.
func (s *Source) Ask(ctx context.Context, r usage.Range) (string, error) {
	length := r.Step * time.Duration(r.Buckets)
	if length > maxRange {
		return "", usage.RefusedError("the log was not searched, and nothing is charged: it is searched for at most 7 days, because it costs by how much is read; choose a shorter range")
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	now := s.now()
	for query, a := range s.asked {
		switch _, _, fresh := s.open(query); {
		case !fresh:
			delete(s.asked, query)
		case a.Range == r.Name && a.Failed == "":
			return query, nil
		case a.Running && now.Sub(a.AskedAt) < searchTime:
			if a = s.look(ctx, query); a.Running {
				return "", usage.RefusedError("the log was not searched: the search for another range is running, and one runs at a time; wait until it has ended, some seconds as a rule")
			}
		}
	}
	from, _ := r.Bounds(now)
	var out struct{ QueryID string }
	err := s.logs.Call(ctx, "Logs_20140328.StartQuery", map[string]any{
		"logGroupName": s.group, "queryString": search, "limit": maxRows,
		"startTime": from.Unix(), "endTime": now.Unix(),
	}, &out)
	if err != nil {
		return "", fmt.Errorf("search log group %q: %w", s.group, err)
	}
	query := fmt.Sprintf("%s.%d.%s", r.Name, now.Unix(), out.QueryID)
	a, _, ok := s.open(query)
	if !ok {
		return "", fmt.Errorf("search log group %q: the search has the name %q", s.group, out.QueryID)
	}
	s.asked[query] = a
	return query, nil
}

// Answer implements [usage.Asker].
func (s *Source) Answer(ctx context.Context, query string) (usage.Answer, error) {
	if _, _, ok := s.open(query); !ok {
		return usage.Answer{}, usage.ErrNoQuery
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.look(ctx, query), nil
}

// look returns what became of a question, and keeps it once that is certain. The caller holds the turn.
func (s *Source) look(ctx context.Context, query string) usage.Answer {
	if a, ok := s.asked[query]; ok && !a.Running {
		return a
	}
	a, id, _ := s.open(query)
	a, err := s.result(ctx, a, id)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "search of the log not read", slog.String("query", id), slog.Any("error", err))
		a.Running, a.Failed = false, "CloudWatch Logs does not give the answer now. Load the page again: the search need not be made again. The log of the admin function says more."
		if !awsjson.HasCode(err, "ResourceNotFoundException") {
			return a
		}
		a.Failed = "CloudWatch Logs does not know this search any more. Search again."
	}
	s.asked[query] = a
	return a
}

// results are a page of what a search has found.
type results struct {
	Status     string
	Results    [][]struct{ Field, Value string }
	Statistics *struct{ BytesScanned float64 }
	NextToken  string
}

// result asks CloudWatch Logs what became of a search.
func (s *Source) result(ctx context.Context, a usage.Answer, id string) (usage.Answer, error) {
	in, uses, rows := map[string]string{"queryId": id}, map[usage.Pair]*usage.Use{}, 0
	for {
		var out results
		if err := s.logs.Call(ctx, "Logs_20140328.GetQueryResults", in, &out); err != nil {
			return a, err
		}
		if out.Statistics != nil {
			a.Cost = costOf(out.Statistics.BytesScanned, s.region)
		}
		switch out.Status {
		case "Scheduled", "Running", "Unknown", "":
			return s.running(ctx, a, id), nil
		case "Complete":
		default:
			a.Running, a.Failed = false, "The search ended without an answer (CloudWatch Logs calls it "+strings.ToLower(out.Status)+"); what it had read by then is charged. Search again."
			return a, nil
		}
		rows += len(out.Results)
		for _, row := range out.Results {
			fields := map[string]string{}
			for _, f := range row {
				fields[f.Field] = f.Value
			}
			add(uses, fields)
		}
		if in["nextToken"] = out.NextToken; out.NextToken == "" || len(out.Results) == 0 {
			break
		}
	}
	a.Running, a.Uses = false, usage.UsesOf(uses)
	if rows >= maxRows {
		a.Cost += " The answer was longer than the 10,000 rows that CloudWatch Logs gives; the rarest calls are missing."
	}
	a.Cost += " What searches showed as locked is not in it."
	return a, nil
}

// running returns what to say of a search that has not ended, and stops it after its time.
func (s *Source) running(ctx context.Context, a usage.Answer, id string) usage.Answer {
	if s.now().Sub(a.AskedAt) < searchTime {
		return a
	}
	a.Running, a.Failed = false, "The search took longer than 5 minutes and was stopped; what it had read by then is charged. Choose a shorter range."
	var out struct{}
	if err := s.logs.Call(ctx, "Logs_20140328.StopQuery", map[string]string{"queryId": id}, &out); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "search of the log not stopped", slog.String("query", id), slog.Any("error", err))
		a.Failed = "The search took longer than 5 minutes, and could not be stopped either; what it reads is charged. Choose a shorter range."
	}
	return a
}

// add counts a row of an answer: how many lines an agent has of a tool, a decision and an outcome.
func add(to map[usage.Pair]*usage.Use, field map[string]string) {
	n, err := strconv.ParseFloat(field["n"], 64)
	if err != nil || n < 1 || field["agent"] == "" {
		return
	}
	var u usage.Use
	switch times, own := int(n), !strings.Contains(field["tool"], ":"); field["decision"] {
	case audit.Allowed:
		switch {
		case field["tool"] == searchTool:
			u.Searches = times
		case own:
			return
		default:
			u.Calls = times
			if slices.Contains(failures, field["outcome"]) {
				u.Failed = times
			}
		}
	case audit.Locked:
		u.Locked = times
	case "":
		return
	default:
		u.Refused = times
	}
	p := usage.Pair{Agent: field["agent"], Tool: field["tool"]}
	if to[p] == nil {
		to[p] = &usage.Use{}
	}
	to[p].Add(u)
}

// failures are the outcomes of calls that failed.
var failures = []string{string(outcome.Transient), string(outcome.Permanent), string(outcome.Denied), audit.Cancelled}

// searchTool is the gateway's own tool by which agents search.
const searchTool = "retrieve_tools"

// costOf says what a search has cost, as far as that can be reckoned here.
func costOf(bytes float64, region string) string {
	gb := bytes / 1e9
	said := fmt.Sprintf("The search read %.3g GB of the log, about $%.2g, reckoned by the price in %s as of November 2026, $%g a GB", gb, gb*pricePerGB, priceRegion, pricePerGB)
	if region != "" && region != priceRegion {
		said += "; this gateway is in " + region + ", whose price may differ"
	}
	return said + "."
}
