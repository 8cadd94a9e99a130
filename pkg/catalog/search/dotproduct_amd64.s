#include "textflag.h"

// func productsWide(a *int16, b *byte, n, stride int, dots *int32, rows int)
//
// Each step widens 16 numbers of b, multiplies them with 16 numbers of a, and adds neighbors: eight
// sums of 32 bits. A product is at most 2^14, so the sums hold 2^16 steps. A vector needs at
// most 2^8 steps.
TEXT ·productsWide(SB), NOSPLIT, $0-48
	MOVQ a+0(FP), R8
	MOVQ b+8(FP), R9
	MOVQ n+16(FP), R10
	MOVQ stride+24(FP), R11
	MOVQ dots+32(FP), R12
	MOVQ rows+40(FP), R13

row:
	MOVQ R8, SI
	MOVQ R9, DI
	MOVQ R10, CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	TESTQ $16, CX
	JZ   pairs
	VPMOVSXBW (DI), Y2
	VPMADDWD (SI), Y2, Y0
	ADDQ $32, SI
	ADDQ $16, DI
	SUBQ $16, CX
	JZ   sum

pairs:
	VPMOVSXBW (DI), Y2
	VPMOVSXBW 16(DI), Y3
	VPMADDWD (SI), Y2, Y2
	VPMADDWD 32(SI), Y3, Y3
	VPADDD Y2, Y0, Y0
	VPADDD Y3, Y1, Y1
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JNZ  pairs

sum:
	VPADDD Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD X1, X0, X0
	VPSHUFD $0x4E, X0, X1
	VPADDD X1, X0, X0
	VPSHUFD $0xB1, X0, X1
	VPADDD X1, X0, X0
	VMOVD X0, (R12)
	ADDQ $4, R12
	ADDQ R11, R9
	DECQ R13
	JNZ  row
	VZEROUPPER
	RET
