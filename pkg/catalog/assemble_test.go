package catalog_test

import (
	"strings"
	"testing"
)

// An assembly finds a catalog whose shard is gone or damaged, and makes it anew of what was found, with
// every decision; it asks no server.
func TestAssembleWithoutAShard(t *testing.T) {
	for name, harm := range map[string]func(w *fixture, key string){
		"gone":    func(w *fixture, key string) { w.remove(key) },
		"damaged": func(w *fixture, key string) { w.Put(key, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			w := shared(t)
			w.Decide("a:x", "disable")
			w.mustShare(true)
			before := strings.Join(w.state(), ", ")
			for _, s := range w.load().Current().Shards {
				harm(w, "catalog/"+s.SHA256+".snap")
			}
			w.Restart()
			w.Loaded = nil
			rep, err := w.Syncer.Assemble(t.Context())
			if err != nil || len(w.asked()) > 0 {
				t.Errorf("Assemble = %+v, %v; asked %v", rep, err, w.asked())
			}
			if got := strings.Join(w.state(), ", "); got != before {
				t.Errorf("the catalog has %s, want %s", got, before)
			}
		})
	}
}
