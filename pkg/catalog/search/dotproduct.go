package search

import "encoding/binary"

// A vector is the vector of a query, in the form for products with document vectors. If the
// processor can multiply sixteen numbers at once, the product uses this. Otherwise it uses the
// following method. Both give the same sums, which are integers.
//
// The method packs two small numbers into one number of 64 bits. The upper half of the product of
// two such numbers is a sum of two products: (x + y·2³²)(b + a·2³²) = xb + (xa + yb)·2³² + …. The
// last product does not fit into 64 bits. So eight products need four multiplications. That halves
// the time of a scan, which is most of the time of a ranking.
type vector struct {
	codes []int8
	wide  []int16  // the codes up to a multiple of 16; nil: the processor cannot use them
	pairs []uint64 // four for each eight codes: code i+4 plus code i·2³²
	sum   int      // of the codes
}

func newVector(codes []int8) vector { return vectorFor(codes, multipliesWide) }

// vectorFor is newVector for both kinds of processors. wide reports whether the processor
// multiplies sixteen numbers at once.
func vectorFor(codes []int8, wide bool) vector {
	v := vector{codes: codes}
	if wide {
		v.wide = make([]int16, len(codes)&^15)
		for i := range v.wide {
			v.wide[i] = int16(codes[i])
		}
		return v
	}
	v.pairs = make([]uint64, 0, len(codes)/2)
	for ; len(codes) >= 8; codes = codes[8:] {
		for i := range 4 {
			v.pairs = append(v.pairs, uint64(int64(codes[i+4])+int64(codes[i])<<32))
		}
	}
	for _, c := range v.codes {
		v.sum += int(c)
	}
	return v
}

// pairProducts works like products, but multiplies pairs of numbers, which every processor can do.
func (v *vector) pairProducts(dots []int32, b []byte) {
	for i := range dots {
		dots[i] = int32(v.pairProduct(b[i*len(v.codes):]))
	}
}

// pairProduct returns the product with the document at the beginning of b, by pairs of numbers.
func (v *vector) pairProduct(b []byte) int {
	const (
		low    = 0x000000ff_000000ff
		signs  = 0x80808080_80808080 // x ^ signs adds 128 to each int8 of x, so that it is from 0 to 255
		offset = 128
	)
	b = b[:len(v.codes)]
	var s0, s1 uint64
	pairs := v.pairs
	for len(pairs) >= 8 && len(b) >= 16 {
		p := (*[8]uint64)(pairs)
		x, y := binary.LittleEndian.Uint64(b)^signs, binary.LittleEndian.Uint64(b[8:])^signs
		s0 += p[0]*(x&low) + p[1]*(x>>8&low) + p[2]*(x>>16&low) + p[3]*(x>>24&low)
		s1 += p[4]*(y&low) + p[5]*(y>>8&low) + p[6]*(y>>16&low) + p[7]*(y>>24&low)
		pairs, b = pairs[8:], b[16:]
	}
	// The sum of the lower halves is between −2³¹ and 2³¹, so adding 2³¹ rounds it
	// away.
	sum := int(int32((s0 + s1 + 1<<31) >> 32))
	for i, code := range v.codes[len(v.codes)-len(b):] {
		sum += int(code) * (int(int8(b[i])) + offset)
	}
	return sum - offset*v.sum
}
