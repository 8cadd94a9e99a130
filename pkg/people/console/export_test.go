package console

import (
	"net/http"
	"reflect"
)

// ArgumentsText is [argumentsText].
var ArgumentsText = argumentsText

// Patterns returns the patterns that the console of these options registers, in the syntax of
// [http.ServeMux]. A mux has no list of its patterns, so the function reads unexported fields of
// the mux.
func Patterns(o Options) (out []string) {
	c := New(o)
	mux, ok := c.pages(o.API).(*http.ServeMux)
	if !ok {
		return nil
	}
	index := reflect.ValueOf(mux).Elem().FieldByName("index")
	lists := []reflect.Value{index.FieldByName("multis")}
	for _, key := range index.FieldByName("segments").MapKeys() {
		lists = append(lists, index.FieldByName("segments").MapIndex(key))
	}
	seen := map[string]bool{}
	for _, list := range lists {
		for i := range list.Len() {
			pattern := list.Index(i).Elem().FieldByName("str").String()
			if !seen[pattern] {
				seen[pattern] = true
				out = append(out, pattern)
			}
		}
	}
	return out
}
