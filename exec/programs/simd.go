//go:build amd64 && goexperiment.simd

package programs

import "simd/archsimd"

// SIMDCompiled says whether the Go backend's matrix kernels use the processor's
// vector instructions. The toolchain decides it: GOEXPERIMENT=simd.
const SIMDCompiled = true

// SIMD names the vector instructions that those kernels find here; "" if none.
func SIMD() string {
	switch {
	case archsimd.X86.AVX512():
		return "AVX-512"
	case archsimd.X86.AVX2():
		return "AVX2"
	}
	return ""
}
