// Package agenteval measures whether agents find the tools that their tasks need.
//
// The measurement needs no model. For each task it makes the task's searches in order, and counts
// each needed tool that an answer names. So the result is an upper bound for agents, and every run
// has the same result.
package agenteval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Task is a goal in words, the searches that an agent makes for it, and the tools that it needs.
type Task struct {
	Task     string   `json:"task"`
	Searches []string `json:"searches"`
	Tools    []string `json:"tools"` // server:tool
}

// maxFile is the maximum size of a file of tasks, in bytes.
const maxFile = 32 << 20

// ReadTasks reads a JSON list of tasks. It reports every fault with the number of its task, which
// starts at 1.
func ReadTasks(r io.Reader) ([]Task, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("the tasks have more than %d MiB", maxFile>>20)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	var tasks []Task
	if err := d.Decode(&tasks); err != nil {
		return nil, fmt.Errorf(`want a list of {"task": "…", "searches": ["…"], "tools": ["server:tool"]}: %w`, err)
	}
	if len(tasks) == 0 {
		return nil, errors.New("the list has no task")
	}
	var faults []error
	for n, t := range tasks {
		if len(t.Searches) == 0 || slices.ContainsFunc(t.Searches, func(s string) bool { return strings.TrimSpace(s) == "" }) {
			faults = append(faults, fmt.Errorf(`task %d: "searches" needs one text or more, none of them empty`, n+1))
		}
		if len(t.Tools) == 0 {
			faults = append(faults, fmt.Errorf(`task %d: "tools" needs one tool or more`, n+1))
		}
		for _, name := range t.Tools {
			if _, err := tool.ParseID(name); err != nil {
				faults = append(faults, fmt.Errorf(`task %d: "tools": %w`, n+1, err))
			}
		}
	}
	return tasks, errors.Join(faults...)
}

// A Result is the outcome of a task.
type Result struct {
	Task     string   `json:"task"`
	Solved   bool     `json:"solved"`            // answers showed every needed tool as callable
	Searches int      `json:"searches"`          // number of searches
	Bytes    int      `json:"bytes"`             // total size of their answers
	Locked   []string `json:"locked,omitempty"`  // tools that answers showed as locked
	Missing  []string `json:"missing,omitempty"` // tools that no answer showed
}

// A Report is the outcome of all tasks.
type Report struct {
	Tasks    int      `json:"tasks"`
	Solved   int      `json:"solved"`
	Locked   int      `json:"locked"` // unsolved tasks whose missing tools were all shown as locked
	Searches int      `json:"searches"`
	Bytes    int      `json:"bytes"`
	Results  []Result `json:"results"`
}

// Run makes the searches of each task until the answers have shown every needed tool. search
// returns the answer of retrieve_tools. Run stops at the first error.
func Run(ctx context.Context, tasks []Task, search func(ctx context.Context, query string) (string, error)) (Report, error) {
	report := Report{Tasks: len(tasks)}
	for _, t := range tasks {
		r := Result{Task: t.Task, Missing: slices.Clone(t.Tools)}
		for _, query := range t.Searches {
			answer, err := search(ctx, query)
			if err != nil {
				return report, fmt.Errorf("search %q: %w", query, err)
			}
			r.Searches++
			r.Bytes += len(answer)
			callable, locked := ParseAnswer(answer)
			shown := func(name string) bool { return slices.Contains(callable, name) }
			r.Missing, r.Locked = slices.DeleteFunc(r.Missing, shown), slices.DeleteFunc(r.Locked, shown)
			for _, name := range locked {
				if i := slices.Index(r.Missing, name); i >= 0 {
					r.Missing, r.Locked = slices.Delete(r.Missing, i, i+1), append(r.Locked, name)
				}
			}
			if len(r.Missing)+len(r.Locked) == 0 {
				r.Solved = true
				break
			}
		}
		report.add(r)
	}
	return report, nil
}

func (r *Report) add(x Result) {
	switch {
	case x.Solved:
		r.Solved++
	case len(x.Missing) == 0:
		r.Locked++
	}
	r.Searches += x.Searches
	r.Bytes += x.Bytes
	r.Results = append(r.Results, x)
}

// ParseAnswer returns the names of the callable and the locked tools in an answer of
// retrieve_tools, which is JSON or lines.
func ParseAnswer(answer string) (callable, locked []string) {
	var f struct {
		Tools, Disabled []struct{ Name string }
		More            []string
	}
	if json.Unmarshal([]byte(answer), &f) == nil {
		for _, t := range f.Tools {
			callable = append(callable, t.Name)
		}
		for _, t := range f.Disabled {
			locked = append(locked, t.Name)
		}
		return append(callable, f.More...), locked
	}
	isLocked := false
	for line := range strings.Lines(answer) {
		line = strings.TrimSuffix(line, "\n")
		if more, ok := strings.CutPrefix(line, "more: "); ok {
			for group := range strings.SplitSeq(more, "; ") {
				server, names, _ := strings.Cut(group, ": ")
				for name := range strings.SplitSeq(names, ", ") {
					callable = append(callable, server+":"+name)
				}
			}
			continue
		}
		isLocked = isLocked || line == "locked:"
		end := strings.IndexAny(line, "( ")
		if end < 0 {
			end = len(line)
		}
		server, name, _ := strings.Cut(line[:end], ":")
		switch {
		case server == "" || name == "": // not the line of a tool
		case isLocked:
			locked = append(locked, line[:end])
		default:
			callable = append(callable, line[:end])
		}
	}
	return callable, locked
}
