package embedding

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// tableOf encodes a table in the format of table.bin. rows has the numbers of each piece of a word.
func tableOf(dim int, rows map[string][]int8) string {
	var texts []string
	for p := range rows {
		texts = append(texts, p)
	}
	slices.Sort(texts)
	blob := strings.Join(texts, "")
	le := binary.LittleEndian
	out := []byte(magic)
	for _, n := range []int{version, dim, 4, len(texts), len(blob)} {
		out = le.AppendUint32(out, uint32(n))
	}
	at := 0
	out = le.AppendUint32(out, 0)
	for _, p := range texts {
		at += len(p)
		out = le.AppendUint32(out, uint32(at))
	}
	out = append(out, blob...)
	out = append(out, make([]byte, -len(blob)&3)...)
	for range texts {
		out = le.AppendUint32(out, math.Float32bits(.5))
	}
	for _, p := range texts {
		for pair := range slices.Chunk(rows[p], 2) {
			out = append(out, byte(pair[0]+8)|byte(pair[1]+8)<<4)
		}
	}
	return string(out)
}

func small() string {
	return tableOf(2, map[string][]int8{
		"do": {1, 2}, "dog": {3, -4}, "dot": {7, 7}, "##s": {-2, 5}, "##ma": {1, 0}, "##matic": {6, 6},
	})
}

func TestDefault(t *testing.T) {
	file, err := os.ReadFile("table.bin")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(file)
	if got := hex.EncodeToString(sum[:]); got != SHA256 {
		t.Errorf("table.bin has SHA-256 %s, want %s", got, SHA256)
	}
	table, err := open(builtin)
	if err != nil {
		t.Fatal(err)
	}
	if table.dim != 256 || table.count != 20000 || table.firsts <= 0 {
		t.Errorf("table has %d rows of %d numbers, words from %d on", table.count, table.dim, table.firsts)
	}
	if got := Default(); got != table {
		t.Error("Default is not the built-in table")
	}
}

func TestAdd(t *testing.T) {
	table, err := open(small())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		word string
		want []float64 // sum of the rows × scale .5 × weight 2; nil: unknown word
	}{
		{"do", []float64{1, 2}},
		{"dog", []float64{3, -4}},
		{"dogs", []float64{1, 1}},
		{"dogma", []float64{4, -4}},
		{"dogmatic", []float64{9, 2}},
		{"dogmatics", []float64{7, 7}},
		{"dos", []float64{-1, 7}},
		{"d", nil},
		{"s", nil},
		{"dogmat", nil},
		{"dôme", nil},
		{"##s", nil},
		{"", nil},
		{"do" + strings.Repeat("s", maxPieces), nil},
	} {
		sum := make([]float64, 2)
		known := table.Add(sum, c.word, 2)
		if want := c.want != nil; known != want {
			t.Errorf("Add(%q) = %v, want %v", c.word, known, want)
		}
		if c.want == nil {
			c.want = []float64{0, 0}
		}
		if !slices.Equal(sum, c.want) {
			t.Errorf("Add(%q) sums to %v, want %v", c.word, sum, c.want)
		}
	}
}

func TestZeroTable(t *testing.T) {
	var table Table
	if table.Dim() != 0 || table.Add(nil, "file", 1) {
		t.Error("the zero Table has a vector")
	}
}

func TestQuantize(t *testing.T) {
	for _, c := range []struct {
		name string
		sum  []float64
		want []int8
		norm float32
	}{
		{"the largest becomes 127", []float64{2, -1, 0}, []int8{127, -64, 0}, float32(math.Sqrt(127*127 + 64*64))},
		{"sign is kept", []float64{-3, 0, 0}, []int8{-127, 0, 0}, 127},
		{"zeros have no direction", []float64{0, 0, 0}, []int8{0, 0, 0}, 0},
		{"NaN has no direction", []float64{1, math.NaN(), 0}, []int8{0, 0, 0}, 0},
		{"infinity has no direction", []float64{1, math.Inf(-1), 0}, []int8{0, 0, 0}, 0},
	} {
		codes := []int8{9, 9, 9}
		if norm := Quantize(codes, c.sum); norm != c.norm || !slices.Equal(codes, c.want) {
			t.Errorf("%s: Quantize(%v) = %v, length %v, want %v, length %v",
				c.name, c.sum, codes, norm, c.want, c.norm)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	good := small()
	with := func(at int, n uint32) string {
		b := []byte(good)
		binary.LittleEndian.PutUint32(b[at:], n)
		return string(b)
	}
	for _, c := range []struct{ name, data, want string }{
		{"nothing", "", "no head"},
		{"another file", strings.Repeat("x", 100), "no head"},
		{"another version", with(8, 2), "version 2"},
		{"rows of nothing", with(12, 0), "0 numbers"},
		{"rows of an odd length", with(12, 3), "3 numbers"},
		{"rows beyond reason", with(12, 1<<20), "1048576 numbers"},
		{"other bits", with(16, 8), "8 bits"},
		{"more pieces than bytes", with(20, math.MaxUint32), "bytes"},
		{"longer texts than bytes", with(24, math.MaxUint32), "bytes"},
		{"a truncated file", good[:len(good)-1], "bytes"},
		{"a longer file", good + "x", "bytes"},
	} {
		_, err := open(c.data)
		if !errors.Is(err, errFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Open = %v, want ErrFormat with %q", c.name, err, c.want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(small(), "dogs")
	f.Add(small(), "dogmatic")
	f.Add(small()[:40], "do")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, data, word string) {
		table, err := open(data)
		if err != nil {
			if !errors.Is(err, errFormat) {
				t.Errorf("Open = %v, want ErrFormat", err)
			}
			return
		}
		sum := make([]float64, table.Dim())
		known := table.Add(sum, word, 1)
		if !known && slices.ContainsFunc(sum, func(x float64) bool { return x != 0 }) {
			t.Errorf("an unknown word %q changed the sum", word)
		}
		Quantize(make([]int8, len(sum)), sum)
	})
}
