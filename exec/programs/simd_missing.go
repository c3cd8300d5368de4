//go:build !(amd64 && goexperiment.simd)

package programs

// SIMDCompiled says whether the Go backend's matrix kernels use the processor's
// vector instructions. The toolchain decides it: GOEXPERIMENT=simd.
const SIMDCompiled = false

// SIMD names the vector instructions that those kernels find here; "" if none.
func SIMD() string { return "" }
