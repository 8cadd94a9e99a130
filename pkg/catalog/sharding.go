package catalog

import (
	"math"
	"slices"
	"strings"
)

// maxShard is how many tools and other items a shard has at most, and maxShardBytes how many bytes
// of definitions. A single server may have more.
const (
	maxShard      = 10_000
	maxShardBytes = 64 << 20
)

// A serverWeight is a server with its weight: a shard is full at 1.
type serverWeight struct {
	ServerInput
	weight float64
}

// assignShards divides the servers, which are in the order of their items' ids, among shards.
// firsts are the first keys of the last catalog's shards, in order. The boundaries stay, so that a
// change in one server changes one shard, with two exceptions: a shard that is too large is
// divided, and two neighbors that together are less than half full become one. The same servers and
// boundaries give the same shards.
func assignShards(servers []serverWeight, firsts []string) [][]serverWeight {
	var groups [][]serverWeight
	for i := range max(1, len(firsts)) {
		n := len(servers)
		if i+1 < len(firsts) {
			n, _ = slices.BinarySearchFunc(servers, firsts[i+1], func(s serverWeight, first string) int {
				return strings.Compare(orderOf(s.Name), first)
			})
		}
		if n > 0 {
			groups = append(groups, divide(servers[:n])...)
		}
		servers = servers[n:]
	}
	merged := groups[:0]
	for _, g := range groups {
		if last := len(merged) - 1; last >= 0 && weigh(merged[last])+weigh(g) <= .5 {
			merged[last] = slices.Concat(merged[last], g)
			continue
		}
		merged = append(merged, g)
	}
	if len(merged) == 0 {
		return [][]serverWeight{nil} // a catalog without servers is one shard without servers
	}
	return merged
}

func weigh(servers []serverWeight) (sum float64) {
	for _, s := range servers {
		sum += s.weight
	}
	return sum
}

// divide divides a group that is too large into the fewest parts of about equal size.
func divide(servers []serverWeight) (groups [][]serverWeight) {
	whole := weigh(servers)
	if whole <= 1 || len(servers) == 1 {
		return [][]serverWeight{servers}
	}
	parts := math.Ceil(whole)
	from, sum := 0, 0.
	for i, s := range servers {
		if i > from && (sum+s.weight > 1 || sum >= whole/parts) {
			groups = append(groups, servers[from:i])
			from, sum = i, 0
		}
		sum += s.weight
	}
	return append(groups, servers[from:])
}
