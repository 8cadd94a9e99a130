package embedding_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
)

// vectorOf returns the quantized vector of a text, as for a query.
func vectorOf(table *embedding.Table, text string) ([]int8, float32) {
	counts := map[string]int{}
	var order []string
	for _, w := range search.SplitWords(text) {
		if counts[w]++; counts[w] == 1 {
			order = append(order, w)
		}
	}
	sum := make([]float64, table.Dim())
	for _, w := range order {
		table.Add(sum, w, 1+math.Log(float64(counts[w])))
	}
	codes := make([]int8, len(sum))
	return codes, embedding.Quantize(codes, sum)
}

// TestGoldenVectors compares the vectors of 200 words and 50 sentences with the golden file of the
// program in maketable, bit by bit.
func TestGoldenVectors(t *testing.T) {
	type vector struct {
		Word   string   `json:"word"`
		Pieces []string `json:"pieces"`
		Text   string   `json:"text"`
		Codes  []byte   `json:"codes"` // base64 of int8
		Norm   float32  `json:"norm"`
	}
	var golden struct{ Words, Sentences []vector }
	raw, err := os.ReadFile("testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(raw, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(golden.Words) != 200 || len(golden.Sentences) != 50 {
		t.Fatalf("the file has %d words and %d sentences, want 200 and 50", len(golden.Words), len(golden.Sentences))
	}
	table := embedding.Default()
	check := func(text string, v vector, codes []int8, norm float32) {
		t.Helper()
		same := slices.EqualFunc(codes, v.Codes, func(a int8, b byte) bool { return a == int8(b) })
		if !same || norm != v.Norm {
			t.Errorf("%q: length %v, want %v; same codes: %v", text, norm, v.Norm, same)
		}
	}
	for _, v := range golden.Words {
		sum := make([]float64, table.Dim())
		if known := table.Add(sum, v.Word, 1); known != (len(v.Pieces) > 0) {
			t.Errorf("%q: known %v, want pieces %q", v.Word, known, v.Pieces)
		}
		codes := make([]int8, len(sum))
		check(v.Word, v, codes, embedding.Quantize(codes, sum))
	}
	for _, v := range golden.Sentences {
		codes, norm := vectorOf(&table, v.Text)
		check(v.Text, v, codes, norm)
	}
}

func TestAddAllocs(t *testing.T) {
	table := embedding.Default()
	sum := make([]float64, table.Dim())
	if n := testing.AllocsPerRun(100, func() { table.Add(sum, "deserialisation", 1) }); n != 0 {
		t.Errorf("Add allocates %v times, want 0", n)
	}
}

// BenchmarkDefault opens the table, which a program does at its start. Target: 1 ms.
func BenchmarkDefault(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if table := embedding.Default(); table.Dim() == 0 {
			b.Fatal("no table")
		}
	}
}

// BenchmarkQueryVector computes the vector of a query of 12 words. Target: 15 µs, 0 allocations.
func BenchmarkQueryVector(b *testing.B) {
	query := search.SplitWords("restart the failed kubernetes deployment in staging, follow its log and report which pods crashed during cluster startup")
	if len(query) != 12 {
		b.Fatalf("the query has %d words, want 12", len(query))
	}
	table := embedding.Default()
	sum, codes := make([]float64, table.Dim()), make([]int8, table.Dim())
	b.ReportAllocs()
	for b.Loop() {
		clear(sum)
		for _, w := range query {
			table.Add(sum, w, 1)
		}
		if embedding.Quantize(codes, sum) == 0 {
			b.Fatal("no vector")
		}
	}
}
