//go:build amd64 && goexperiment.simd

package backend

import "simd/archsimd"

// SIMDCompiled says whether the Go backend's matrix kernels use the vector instructions of the
// processor. The toolchain decides that: GOEXPERIMENT=simd.
const SIMDCompiled = true

// SIMD names the vector instructions that these kernels use on this processor; "" if there are
// none.
func SIMD() string {
	switch {
	case archsimd.X86.AVX512():
		return "AVX-512"
	case archsimd.X86.AVX2():
		return "AVX2"
	}
	return ""
}
