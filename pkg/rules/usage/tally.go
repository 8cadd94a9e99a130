package usage

// A Pair is an agent and a tool that it called, or found locked. Merged agents or tools are the
// empty text.
type Pair struct{ Agent, Tool string }

// A Use has the counts of an agent's use of a tool.
type Use struct {
	Calls    int `json:"calls" doc:"that were sent to a server"`
	Locked   int `json:"locked" doc:"calls while the tool was locked"`
	Refused  int `json:"refused" doc:"calls that were refused for another reason"`
	Failed   int `json:"failed" doc:"of the calls that were sent"`
	Found    int `json:"found" doc:"searches whose answer showed the tool as locked"`
	Searches int `json:"searches"`
}

// Add adds other to u.
func (u *Use) Add(other Use) {
	u.Calls += other.Calls
	u.Locked += other.Locked
	u.Refused += other.Refused
	u.Failed += other.Failed
	u.Found += other.Found
	u.Searches += other.Searches
}

// Limits of the pairs that a tally counts separately: for one agent, so that it cannot crowd out
// others, and for all. Beyond these limits, all further tools of an agent are counted as one pair
// without a tool. If there are twice maxPairs pairs, all further agents are counted as one pair
// without an agent.
const (
	maxTools = 128
	maxPairs = 1024
)

// A Tally has the counts of a span of time. The zero Tally is empty.
type Tally struct {
	Counts  Counts
	Latency Histogram

	uses   map[Pair]*Use
	agents map[string]int // how many pairs an agent has; nil: not counted yet
}

// Uses returns the uses by agent and tool. The caller must not modify it.
func (t *Tally) Uses() map[Pair]*Use { return t.uses }

// Use returns the use of a pair, for adding to it. If there is no room left, it returns a merged
// use.
func (t *Tally) Use(p Pair) *Use {
	if u := t.uses[p]; u != nil {
		return u
	}
	if t.uses == nil {
		t.uses = map[Pair]*Use{}
	}
	if t.agents == nil {
		t.agents = map[string]int{}
		for p := range t.uses {
			t.agents[p.Agent]++
		}
	}
	switch {
	case p.Tool != "" && (t.agents[p.Agent] >= maxTools || len(t.uses) >= maxPairs):
		return t.Use(Pair{Agent: p.Agent})
	case p.Agent != "" && len(t.uses) >= 2*maxPairs:
		return t.Use(Pair{})
	}
	u := &Use{}
	t.uses[p] = u
	t.agents[p.Agent]++
	return u
}

// Add adds other to t.
func (t *Tally) Add(other *Tally) {
	t.Counts.Add(&other.Counts)
	t.Latency.Add(&other.Latency)
	for _, p := range sortedPairs(other.uses) { // so that the same pairs find room each time
		t.Use(p).Add(*other.uses[p])
	}
}
