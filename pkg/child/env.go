package child

import (
	"maps"
	"slices"
)

// Environment returns the environment of a program: the few variables without which programs do
// not find what they need, as getenv has them, and those that are listed. Nothing else of this
// process reaches a program: no credential that it was not given.
func Environment(getenv func(string) string, listed map[string]string) []string {
	all := map[string]string{}
	for _, name := range inherited() {
		if v := getenv(name); v != "" {
			all[name] = v
		}
	}
	maps.Copy(all, listed)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}
