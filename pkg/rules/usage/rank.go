package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Uses has the uses by tool and by agent, each list complete and in the order of names.
type Uses struct {
	Tools  []Row
	Agents []Row
}

// A Row is a tool or an agent. All tools or agents that were not counted separately share one row
// without a name.
type Row struct {
	Name   string
	Beside int // agents of a tool, tools of an agent; all those not counted separately count as one
	Use
}

// UsesOf adds up uses by tool and by agent. The gateway's own tools have no row, because a search
// calls no tool.
func UsesOf(pairs map[Pair]*Use) *Uses {
	tools, agents := map[string]*Row{}, map[string]*Row{}
	row := func(in map[string]*Row, name string) *Row {
		if in[name] == nil {
			in[name] = &Row{Name: name}
		}
		return in[name]
	}
	for p, u := range pairs {
		row(agents, p.Agent).Add(*u)
		if own := p.Tool != "" && !strings.Contains(p.Tool, ":"); own {
			continue
		}
		row(tools, p.Tool).Add(*u)
		if u.Calls+u.Locked+u.Refused > 0 {
			row(tools, p.Tool).Beside++
			row(agents, p.Agent).Beside++
		}
	}
	return &Uses{rows(tools), rows(agents)}
}

func rows(of map[string]*Row) []Row {
	out := make([]Row, 0, len(of))
	for _, r := range of {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Most returns the rows for which the function of returns a positive value, the largest value
// first. Rows without a name come last.
func Most(rows []Row, of func(Row) int) []Row {
	out := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return of(r) == 0 })
	slices.SortStableFunc(out, func(a, b Row) int {
		if (a.Name == "") != (b.Name == "") {
			return strings.Compare(b.Name, a.Name)
		}
		return cmp.Compare(of(b), of(a))
	})
	return out
}

// A Week has the calls of one tool in the last seven days.
type Week struct {
	Days   [7]int `json:"days" doc:"calls that were sent, in each of the last seven times 24 hours, the oldest first"`
	Calls  int    `json:"calls" doc:"their sum"`
	Locked int    `json:"locked" doc:"calls while the tool was locked"`
	Agents int    `json:"agents" doc:"agents that called the tool, even if the call was refused"`
}

// day is the step of a [Week].
const day = 24 * time.Hour
