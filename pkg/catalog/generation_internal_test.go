package catalog

import "testing"

// Each format that an earlier program cannot read begins a generation. If this test fails, give
// [CurrentKey] the next number, move its present value to the front of earlierKeys, remove the
// third value there, and change the numbers here.
func TestFormatsOfTheGeneration(t *testing.T) {
	if Format != 2 || version != 5 || CurrentKey != "catalog/current-2.json" ||
		len(earlierKeys) > 2 {
		t.Errorf(
			"format %d and shards of version %d are stored at %s, read before %q",
			Format,
			version,
			CurrentKey,
			earlierKeys,
		)
	}
}
