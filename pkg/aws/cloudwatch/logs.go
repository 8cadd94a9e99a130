// Package cloudwatch reports how agents use the tools of a gateway on AWS.
//
// The log of the function that agents call contains the names of tools and agents. A person starts
// a search of this log to find out which agents use which tools. The stack's dashboard shows the
// number and duration of calls, from metrics on the same lines of the log.
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
	keepAnswer = 15 * time.Minute // how long the name of a search is valid
	searchTime = 5 * time.Minute  // how long a search of the log may take
	maxRange   = 7 * 24 * time.Hour
	maxRows    = 10_000 // the maximum of CloudWatch Logs Insights

	// The price of a search as of November 2026. Other regions charge more.
	pricePerGB  = 0.005
	priceRegion = "us-east-1"
)

// search is the query of a search. It counts the log lines of calls for each combination of agent,
// tool, decision and outcome. A request about the task of an earlier call is no call.
const search = `filter audit = 1 and kind = "call" and method not like "tasks/"
| stats count(*) as n by agent, tool, decision, outcome
| sort n desc
| limit 10000`

// Options are the options of a Source.
type Options struct {
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: none
	Stack string           // name of the gateway's stack, for a person
}

// A Source reads tools and agents from the log of the mcp function, when a person starts a search.
// It is safe for concurrent use.
type Source struct {
	logs          *awsjson.Client
	group, region string
	now           func() time.Time
	log           *slog.Logger
	hint          string // tells people where to find the number of calls

	turn  sync.Mutex // held during a request to CloudWatch Logs
	asked map[string]usage.Answer
}

var (
	_ usage.Source = (*Source)(nil)
	_ usage.Asker  = (*Source)(nil)
)

// New returns a source that searches the named log group.
func New(c aws.Config, group string, o Options) *Source {
	s := &Source{
		logs: awsjson.New(c, "logs"), group: group, region: c.Region, now: o.Now,
		log:   cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		asked: map[string]usage.Answer{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.hint = fmt.Sprintf("Calls, refusals, failures and times are not counted here: see the "+
		"CloudWatch dashboard %s-%s. This page finds tools and agents in the log.", o.Stack, c.Region)
	return s
}

// Usage implements [usage.Source].
func (s *Source) Usage(_ context.Context, r usage.Range) (usage.Report, error) {
	out := usage.Report{Range: r, Says: []string{s.hint}}
	out.Total.Start, _ = r.Bounds(s.now())
	return out, nil
}

// The name of a search contains all data that a read of its answer needs, because the next request
// may reach another instance of the function.
var questionName = regexp.MustCompile(`^(1h|24h|7d)\.([0-9]{1,12})\.([0-9a-zA-Z-]{1,64})$`)

// open reads the name of a search. ok is false if the name is invalid or old.
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
		return "", usage.RefusedError("the log was not searched, and nothing is charged: a " +
			"search covers at most 7 days, because its price depends on the data read; choose a " +
			"shorter range")
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
			if a = s.searchState(ctx, query); a.Running {
				return "", usage.RefusedError("the log was not searched: the search for another " +
					"range is running, and one runs at a time; wait until it has ended, usually " +
					"after some seconds")
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
	return s.searchState(ctx, query), nil
}

// searchState returns the state of a search, and caches the final state. The caller holds s.turn.
func (s *Source) searchState(ctx context.Context, query string) usage.Answer {
	if a, ok := s.asked[query]; ok && !a.Running {
		return a
	}
	a, id, _ := s.open(query)
	a, err := s.result(ctx, a, id)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "search of the log not read", slog.String("query", id), slog.Any("error", err))
		a.Running, a.Failed = false, "CloudWatch Logs did not return the answer. Load the "+
			"page again; no new search is necessary. The log of the admin function "+
			"says more."
		if !awsjson.HasCode(err, "ResourceNotFoundException") {
			return a
		}
		a.Failed = "CloudWatch Logs no longer has this search. Search again."
	}
	s.asked[query] = a
	return a
}

// results is a page of a search's results.
type results struct {
	Status     string
	Results    [][]struct{ Field, Value string }
	Statistics *struct{ BytesScanned float64 }
	NextToken  string
}

// result asks CloudWatch Logs for the state of a search.
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
			a.Running, a.Failed = false, "The search ended without an answer (CloudWatch Logs "+
				"calls it "+strings.ToLower(out.Status)+"); the data read so far is charged. "+
				"Search again."
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
		a.Cost += " The answer was longer than the 10,000 rows that CloudWatch Logs returns; " +
			"the rarest calls are missing."
	}
	a.Cost += " Locked tools in search results are not counted."
	return a, nil
}

// running returns the answer for a search that has not ended, and stops a search that takes too
// long.
func (s *Source) running(ctx context.Context, a usage.Answer, id string) usage.Answer {
	if s.now().Sub(a.AskedAt) < searchTime {
		return a
	}
	a.Running, a.Failed = false, "The search took longer than 5 minutes and was stopped; the "+
		"data read so far is charged. Choose a shorter range."
	var out struct{}
	if err := s.logs.Call(ctx, "Logs_20140328.StopQuery", map[string]string{"queryId": id}, &out); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "search of the log not stopped", slog.String("query", id), slog.Any("error", err))
		a.Failed = "The search took longer than 5 minutes, and could not be stopped; the data " +
			"it reads is charged. Choose a shorter range."
	}
	return a
}

// add adds a row of an answer: the number of lines of an agent, a tool, a decision and an outcome.
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

// searchTool is the gateway's tool that agents use to search.
const searchTool = "retrieve_tools"

// costOf describes the cost of a search, as far as it can be computed here.
func costOf(bytes float64, region string) string {
	gb := bytes / 1e9
	text := fmt.Sprintf("The search read %.3g GB of the log, about $%.2g, computed with the "+
		"price in %s as of November 2026, $%g a GB", gb, gb*pricePerGB, priceRegion, pricePerGB)
	if region != "" && region != priceRegion {
		text += "; this gateway is in " + region + ", whose price may differ"
	}
	return text + "."
}
